//! The stages of a call at which hooks run.

/// The stage of a call at which a hook runs; see
/// [`IsolationBuilder::hook`](crate::IsolationBuilder::hook).
///
/// ```
/// use tidegate_isolate::CallStage;
///
/// assert!(CallStage::Start.may_refuse() && !CallStage::Success.may_refuse());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallStage {
    /// Before anything else. An error ends the call without a fallback.
    Start,
    /// The work has received a thread of the bulkhead. An error counts as the work's own.
    ThreadStart,
    /// The work is about to run. An error counts as the work's own.
    ExecutionStart,
    /// The work returned a value.
    ExecutionEmit,
    /// The work succeeded.
    ExecutionSuccess,
    /// The work failed.
    ExecutionError,
    /// The thread of the bulkhead is done with the call.
    ThreadComplete,
    /// The fallback is about to run. An error counts as the fallback's own.
    FallbackStart,
    /// The fallback returned a value.
    FallbackEmit,
    /// The fallback succeeded.
    FallbackSuccess,
    /// The fallback failed.
    FallbackError,
    /// The caller is about to receive a value.
    Emit,
    /// The caller received a value.
    Success,
    /// The caller received an error.
    Error,
    /// The result comes from the request cache.
    CacheHit,
    /// The caller cancelled the call.
    Cancelled,
}

impl CallStage {
    /// Returns `true` if an error of a hook at this stage has an effect. At other stages it is
    /// ignored.
    pub fn may_refuse(self) -> bool {
        matches!(
            self,
            Self::Start | Self::ThreadStart | Self::ExecutionStart | Self::FallbackStart
        )
    }
}
