//! How long a test runs: set by the environment, for nightly runs and for slow machines.

/// The variable that asks for the long version of tests; set to 1 by nightly runs.
pub const LONG_VARIABLE: &str = "TIDEGATE_LONG";
/// The variable that asks for few repetitions; set where each step is slow, as under valgrind.
pub const SMALL_VARIABLE: &str = "TIDEGATE_SMALL";

/// Returns `long` when [`LONG_VARIABLE`] is 1, else `short`.
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

/// Returns how often to repeat something: `many` times, or a fiftieth of that when
/// [`SMALL_VARIABLE`] is set.
#[must_use]
pub fn rounds(many: usize) -> usize {
    match std::env::var_os(SMALL_VARIABLE) {
        Some(_) => (many / 50).max(4),
        None => many,
    }
}
