//! Turns panics of user code into messages.

/// Runs user code. A panic becomes an error with its message.
#[inline(always)]
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    tidegate_core::internal::contain(run).map_err(|panic| panic.message().to_owned())
}
