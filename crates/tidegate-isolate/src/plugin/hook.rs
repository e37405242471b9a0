//! Hooks: user code that runs at the stages of every call and may reject it.

use crate::key::Key;

/// The stage of a call at which a hook runs.
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

/// User code that runs at the stages of every call, on the thread that performs the stage.
///
/// ```
/// use tidegate_isolate::{Isolation, Key, CallStage};
///
/// let isolation = Isolation::builder()
///     .hook(|stage: CallStage, command: &Key| match stage {
///         CallStage::Start if &**command == "legacy" => Err("not today".to_owned()),
///         _ => Ok(()),
///     })
///     .build()?;
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
pub trait Hook: Send + Sync + 'static {
    /// Runs at `stage` of a call of `command`.
    ///
    /// # Errors
    ///
    /// An error rejects the call at the stages where [`CallStage::may_refuse`] returns `true`.
    fn on(&self, stage: CallStage, command: &Key) -> Result<(), String>;
}

impl<F> Hook for F
where
    F: Fn(CallStage, &Key) -> Result<(), String> + Send + Sync + 'static,
{
    fn on(&self, stage: CallStage, command: &Key) -> Result<(), String> {
        self(stage, command)
    }
}
