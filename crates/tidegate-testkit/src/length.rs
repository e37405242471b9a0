//! The length of a test run, set by the environment for nightly runs and slow machines.

/// The variable that selects the long version of tests. Nightly runs set it to 1.
pub const LONG_VARIABLE: &str = "TIDEGATE_LONG";
/// The variable that selects few repetitions. Set where each step is slow, as under valgrind.
pub const SMALL_VARIABLE: &str = "TIDEGATE_SMALL";

/// Returns `long` if [`LONG_VARIABLE`] is 1, else `short`.
///
/// # Examples
///
/// ```
/// let seeds = tidegate_testkit::short_or_long(8, 200);
/// assert!(seeds == 8 || seeds == 200);
/// ```
#[must_use]
pub fn short_or_long<T>(short: T, long: T) -> T {
    match std::env::var_os(LONG_VARIABLE) {
        Some(value) if value == "1" => long,
        _ => short,
    }
}

/// Returns the number of repetitions: `many`, or a fiftieth of it but at least 4 if
/// [`SMALL_VARIABLE`] is set.
#[must_use]
pub fn rounds(many: usize) -> usize {
    match std::env::var_os(SMALL_VARIABLE) {
        Some(_) => (many / 50).max(4),
        None => many,
    }
}
