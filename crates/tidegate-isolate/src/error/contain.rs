//! Panics of code that a user gave, as messages.

/// Runs what a user gave; a panic becomes its message.
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    tidegate_core::contain(run).map_err(|panic| panic.message().to_owned())
}
