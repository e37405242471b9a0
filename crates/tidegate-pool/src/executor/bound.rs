//! How many tasks may wait for an executor when nothing else is said.

/// The most tasks that wait for an executor when nothing else is said.
pub const DEFAULT_BOUND: usize = 65_536;

/// The environment variable that changes [`DEFAULT_BOUND`].
pub const BOUND_VARIABLE: &str = "TIDEGATE_MAX_PENDING_TASKS";

/// The bound that holds in this process.
pub fn default_bound() -> usize {
    bound_from(std::env::var(BOUND_VARIABLE).ok().as_deref())
}

/// The bound that the environment asks for; the default where it asks for none that is a number.
fn bound_from(asked: Option<&str>) -> usize {
    let asked = asked.and_then(|bound| bound.trim().parse().ok());
    asked.unwrap_or(DEFAULT_BOUND)
}

#[cfg(test)]
mod tests {
    //! What the environment can say about the bound.

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
