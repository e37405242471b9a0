//! The default bound on the tasks that may wait for an executor.

/// The default for the maximum number of tasks that may wait for an executor.
pub const DEFAULT_BOUND: usize = 65_536;

/// The environment variable that overrides [`DEFAULT_BOUND`].
pub const BOUND_VARIABLE: &str = "TIDEGATE_MAX_PENDING_TASKS";

/// Returns the default bound of this process: [`BOUND_VARIABLE`] if it is set, else
/// [`DEFAULT_BOUND`].
pub fn default_bound() -> usize {
    bound_from(std::env::var(BOUND_VARIABLE).ok().as_deref())
}

/// Parses the value of the environment variable. Returns the default if it is absent or not a
/// number.
fn bound_from(requested: Option<&str>) -> usize {
    let requested = requested.and_then(|bound| bound.trim().parse().ok());
    requested.unwrap_or(DEFAULT_BOUND)
}

#[cfg(test)]
mod tests {
    //! Valid and invalid values of the environment variable.

    use super::*;

    #[test]
    fn the_environment_changes_the_default_bound() {
        assert_eq!(bound_from(None), 65_536);
        assert_eq!(bound_from(Some("1024")), 1024);
        assert_eq!(bound_from(Some(" 1024\n")), 1024);
        for nonsense in ["", "many", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(bound_from(Some(nonsense)), DEFAULT_BOUND);
        }
    }
}
