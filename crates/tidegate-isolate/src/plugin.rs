//! Plug-in points: what a program adds around every call. Several of each are allowed; they are
//! called in the order in which they were added, and one that panics does not stop the rest.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{OnUnhandled, Unhandled};

use crate::{Event, Key, Transition};

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

/// Hears of keys that come and go, once each, to publish their metrics.
pub trait MetricsPublisher: Send + Sync + 'static {
    /// The first command of this key was built.
    fn added(&self, command: &Key);

    /// The key was removed.
    fn removed(&self, command: &Key) {
        let _ = command;
    }
}

/// Carries something from the thread that calls to the thread that works: one of the bulkhead's,
/// or the one that runs the fallback of a call whose time is over. A future is polled wherever its
/// task is; what it needs, its task carries.
pub trait Propagator: Send + Sync + 'static {
    /// Takes along what the calling thread has. The answer installs it on the working thread,
    /// and what that answers puts back what was there before.
    fn capture(&self) -> Install;
}

/// Installs what was captured; answers what restores the thread.
pub type Install = Box<dyn FnOnce() -> Restore + Send>;
/// Puts back what a thread had.
pub type Restore = Box<dyn FnOnce()>;

pub(crate) type OnEvent = Arc<dyn Fn(&Key, Event) + Send + Sync>;
pub(crate) type OnTransition = Arc<dyn Fn(&Transition) + Send + Sync>;

/// Everything that was plugged in.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) on_event: Vec<OnEvent>,
    pub(crate) on_transition: Vec<OnTransition>,
    pub(crate) publishers: Vec<Arc<dyn MetricsPublisher>>,
    pub(crate) propagators: Vec<Arc<dyn Propagator>>,
    /// Who hears of what nobody handles.
    pub(crate) unhandled: OnUnhandled,
}

impl Plugins {
    /// Whether calls need not look here.
    pub(crate) fn is_quiet(&self) -> bool {
        self.hooks.is_empty() && self.on_event.is_empty()
    }

    /// Calls the hooks; the first refusal counts, where the stage takes one.
    pub(crate) fn hook(&self, stage: Stage, command: &Key) -> Result<(), String> {
        let mut answer = Ok(());
        for hook in &self.hooks {
            let told = contain(|| hook.on(stage, command));
            if let (Err(message), false) = (&told, stage.may_refuse()) {
                self.panicked(command, message);
            }
            let told = told.and_then(|told| told);
            if stage.may_refuse() && answer.is_ok() {
                answer = told;
            }
        }
        answer
    }

    /// What the calling thread has, to be installed where somebody works for it.
    pub(crate) fn capture(&self) -> Vec<Install> {
        let captured = self.propagators.iter();
        let captured = captured.map(|propagator| contain(|| propagator.capture()));
        let heard = captured.inspect(|one| self.heard_propagator(one));
        heard.filter_map(Result::ok).collect()
    }

    /// Reports what a propagator did, if it panicked.
    pub(crate) fn heard_propagator<T>(&self, done: &Result<T, String>) {
        if let Err(message) = done {
            self.panicked("a propagator", message);
        }
    }

    /// Reports user code that panicked, of which no caller hears.
    #[cold]
    pub(crate) fn panicked(&self, about: &str, message: &str) {
        self.unhandled
            .tell(about, &Unhandled::HookPanic { message });
    }

    pub(crate) fn event(&self, command: &Key, event: Event) {
        for listener in &self.on_event {
            if let Err(message) = contain(|| listener(command, event)) {
                self.panicked(command, &message);
            }
        }
    }

    /// Reports something that no caller hears of. Never called with a lock held.
    pub(crate) fn report(&self, message: &str) {
        self.unhandled
            .tell("isolation", &Unhandled::Setting { message });
    }

    pub(crate) fn added(&self, command: &Key) {
        for publisher in &self.publishers {
            if let Err(message) = contain(|| publisher.added(command)) {
                self.panicked(command, &message);
            }
        }
    }

    pub(crate) fn removed(&self, command: &Key) {
        for publisher in &self.publishers {
            if let Err(message) = contain(|| publisher.removed(command)) {
                self.panicked(command, &message);
            }
        }
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("hooks", &self.hooks.len())
            .field("on_event", &self.on_event.len())
            .field("publishers", &self.publishers.len())
            .field("propagators", &self.propagators.len())
            .finish_non_exhaustive()
    }
}

/// Runs what a user gave; a panic becomes its message.
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    tidegate_core::contain(run).map_err(|panic| panic.message().to_owned())
}
