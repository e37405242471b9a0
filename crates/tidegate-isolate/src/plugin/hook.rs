//! Hooks: called at the stages of every call, and able to refuse it.

use crate::key::Key;

/// Where in a call a hook is called.
///
/// ```
/// use tidegate_isolate::Stage;
///
/// assert!(Stage::Start.may_refuse() && !Stage::Success.may_refuse());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Before anything else. An error ends the call without a fallback.
    Start,
    /// The work has a thread of the bulkhead. An error counts as the work's own.
    ThreadStart,
    /// The work is about to run. An error counts as the work's own.
    ExecutionStart,
    /// The work answered.
    ExecutionEmit,
    /// The work succeeded.
    ExecutionSuccess,
    /// The work failed.
    ExecutionError,
    /// The thread of the bulkhead is done with the call.
    ThreadComplete,
    /// The fallback is about to run. An error counts as the fallback's own.
    FallbackStart,
    /// The fallback answered.
    FallbackEmit,
    /// The fallback succeeded.
    FallbackSuccess,
    /// The fallback failed.
    FallbackError,
    /// The caller is about to get an answer.
    Emit,
    /// The caller got an answer.
    Success,
    /// The caller got an error.
    Error,
    /// The answer comes from the request cache.
    CacheHit,
    /// The caller left.
    Cancelled,
}

impl Stage {
    /// Whether an error of a hook at this stage means something. At the others it is ignored.
    pub fn may_refuse(self) -> bool {
        matches!(
            self,
            Self::Start | Self::ThreadStart | Self::ExecutionStart | Self::FallbackStart
        )
    }
}

/// Called at the stages of every call, on the thread that does what the stage says.
///
/// ```
/// use tidegate_isolate::{Isolation, Key, Stage};
///
/// let isolation = Isolation::builder()
///     .hook(|stage: Stage, command: &Key| match stage {
///         Stage::Start if &**command == "legacy" => Err("not today".to_owned()),
///         _ => Ok(()),
///     })
///     .build()?;
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
pub trait Hook: Send + Sync + 'static {
    /// Called at `stage` of a call of `command`.
    ///
    /// # Errors
    ///
    /// Refuses the call where the stage says so.
    fn on(&self, stage: Stage, command: &Key) -> Result<(), String>;
}

impl<F> Hook for F
where
    F: Fn(Stage, &Key) -> Result<(), String> + Send + Sync + 'static,
{
    fn on(&self, stage: Stage, command: &Key) -> Result<(), String> {
        self(stage, command)
    }
}
