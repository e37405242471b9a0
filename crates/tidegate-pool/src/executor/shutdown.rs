//! The parameters of an executor's shutdown, and the errors of a shutdown that failed.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_promise::AbandonedError;

use super::handed_back::HandedBack;

/// The quiet period of a shutdown: the event loop waits until no task was submitted for `period`,
/// but at most for `timeout` in all.
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::Quiet;
///
/// let patient = Quiet::default();
/// assert_eq!((patient.period.as_secs(), patient.timeout.as_secs()), (2, 15));
/// let at_once = Quiet::none(Duration::from_secs(1));
/// assert!(at_once.period.is_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// The time without a submission after which the loop closes.
    pub period: Duration,
    /// The time after which the loop closes in any case.
    pub timeout: Duration,
}

impl Quiet {
    /// Creates a value without a quiet period: the loop closes as soon as all accepted tasks have
    /// run, and at the latest after `timeout`.
    pub fn none(timeout: Duration) -> Self {
        Self {
            period: Duration::ZERO,
            timeout,
        }
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(2),
            timeout: Duration::from_secs(15),
        }
    }
}

/// The error of an event loop's shutdown that failed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The quiet period is longer than the timeout.
    BadQuiet(Quiet),
    /// This executor cannot be shut down.
    Unsupported,
    /// A task had not returned at the deadline. Its thread is left running.
    Stuck {
        /// The name of the event loop.
        name: String,
        /// The task that did not return.
        task: Cow<'static, str>,
        /// The longest time that the task can have been running, counted from the loop's last clock
        /// reading.
        age: Duration,
        /// Number of tasks that waited behind it.
        behind: usize,
        /// Items that the driver still had on other threads, such as connections whose handlers had
        /// not returned. Each one ends when its handler returns.
        cut: Vec<String>,
        /// The tasks that waited. They arrive when the stuck task returns, if it ever does. Tasks
        /// with a waiter or a listener were given up with this report and will not run.
        handed_back: HandedBack,
    },
    /// The loop's own code panicked: a bug in the driver.
    Panicked {
        /// The panic's message.
        message: String,
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// No thread could be started to run the remaining tasks and the shutdown hooks.
    NoThread {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// The `ManualLoop` was dropped, so no thread drives the event loop any more.
    ManualLoopDropped {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// The strategy of a roaming loop broke its contract, so no thread drives the loop.
    BadStrategy {
        /// The name of the event loop.
        name: String,
        /// The name of the strategy.
        strategy: &'static str,
        /// What the strategy did, with a verb first, and what it has to do.
        fault: &'static str,
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// The event loop was dropped without a report.
    Lost,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadQuiet(what) => write!(
                f,
                "the quiet period of {:?} is longer than the timeout of {:?}; raise the \
                 timeout or lower the period",
                what.period, what.timeout
            ),
            Self::Unsupported => f.write_str(
                "the executor was not shut down because it does not support it; leave it \
                 running",
            ),
            Self::Stuck {
                name,
                task,
                age,
                behind,
                cut,
                ..
            } => write!(
                f,
                "loop {name} did not end in time: {}",
                stuck(task, *age, *behind, cut)
            ),
            Self::Panicked { message, .. } => write!(
                f,
                "the loop's driver panicked: {message}; report it as a defect of the driver"
            ),
            Self::NoThread { handed_back } => write!(
                f,
                "no thread could be started to run the shutdown hooks; {} tasks are handed \
                 back",
                handed_back.len()
            ),
            Self::ManualLoopDropped { handed_back } => write!(
                f,
                "the `ManualLoop` that drove the loop was dropped; {} tasks are handed back",
                handed_back.len()
            ),
            Self::BadStrategy {
                name,
                strategy,
                fault,
                handed_back,
            } => write!(
                f,
                "loop {name} did not end as requested: strategy {strategy} {fault}; {} tasks \
                 are handed back",
                handed_back.len()
            ),
            Self::Lost => f.write_str(
                "the loop was dropped without a report; keep a handle until it has \
                 terminated",
            ),
        }
    }
}

impl Error for ShutdownError {}

impl ShutdownError {
    /// Returns the tasks that had not started, if the error carries them.
    pub fn handed_back(&self) -> Option<&HandedBack> {
        match self {
            Self::Stuck { handed_back, .. }
            | Self::Panicked { handed_back, .. }
            | Self::NoThread { handed_back }
            | Self::BadStrategy { handed_back, .. }
            | Self::ManualLoopDropped { handed_back } => Some(handed_back),
            Self::BadQuiet(_) | Self::Unsupported | Self::Lost => None,
        }
    }

    /// Replaces the tasks that had not started, if the error carries them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_handed_back(mut self, all: HandedBack) -> Self {
        match &mut self {
            Self::Stuck { handed_back, .. }
            | Self::Panicked { handed_back, .. }
            | Self::NoThread { handed_back }
            | Self::BadStrategy { handed_back, .. }
            | Self::ManualLoopDropped { handed_back } => *handed_back = all,
            Self::BadQuiet(_) | Self::Unsupported | Self::Lost => {}
        }
        self
    }
}

tidegate_core::debug_as_display!(ShutdownError);

/// Describes what kept an event loop from ending.
fn stuck(task: &str, age: Duration, behind: usize, cut: &[String]) -> String {
    match cut {
        [] => format!("task `{task}` has not returned for {age:?}, {behind} tasks wait behind it"),
        cut => format!("{task} has not returned, of {}", cut.join(", ")),
    }
}

impl From<AbandonedError> for ShutdownError {
    fn from(_: AbandonedError) -> Self {
        Self::Lost
    }
}
