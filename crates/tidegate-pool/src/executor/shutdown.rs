//! How an executor is asked to end, and why that did not end well.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_promise::Abandoned;

use super::handed_back::HandedBack;

/// How patiently a loop ends: it waits until nothing was submitted for `period`, but at most
/// `timeout` in all.
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
    /// How long nothing may be submitted before the loop closes.
    pub period: Duration,
    /// When it closes at the latest.
    pub timeout: Duration,
}

impl Quiet {
    /// Closes as soon as what was accepted has run, and after `timeout` at the latest.
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

/// Why a loop's shutdown did not end well.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The quiet period is longer than the timeout.
    BadQuiet(Quiet),
    /// This executor cannot be shut down.
    Unsupported,
    /// A task had not returned at the deadline. Its thread is left to itself.
    Stuck {
        /// The loop.
        name: String,
        /// The task that did not return.
        task: Cow<'static, str>,
        /// How long it had been running at most: counted from the loop's last look at the clock.
        age: Duration,
        /// Tasks that waited behind it.
        behind: usize,
        /// Who was cut: what the driver still had with other threads, such as connections whose
        /// handlers had not returned. They end when those return.
        cut: Vec<String>,
        /// Those tasks, if it ever returns. The ones that were waited for or listened to were
        /// given up with this report and do not run any more.
        handed_back: HandedBack,
    },
    /// The loop's own code panicked: a bug in the driver.
    Panicked {
        /// The panic's message.
        message: String,
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// No thread could be started to run what was left and the shutdown hooks.
    NoThread {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// Its `HandLoop` was dropped: nobody drives it any more.
    HandDropped {
        /// Tasks that had not started.
        handed_back: HandedBack,
    },
    /// The loop went away without reporting.
    Lost,
}

impl ShutdownError {
    /// The tasks that had not started, if that can be said.
    pub fn handed_back(&self) -> Option<&HandedBack> {
        match self {
            Self::Stuck { handed_back, .. }
            | Self::Panicked { handed_back, .. }
            | Self::NoThread { handed_back }
            | Self::HandDropped { handed_back } => Some(handed_back),
            Self::BadQuiet(_) | Self::Unsupported | Self::Lost => None,
        }
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadQuiet(Quiet { period, timeout }) => write!(
                f,
                "the quiet period of {period:?} is longer than the timeout of {timeout:?}; \
                 raise the timeout or lower the period"
            ),
            Self::Unsupported => f.write_str("this executor cannot be shut down"),
            Self::Stuck {
                name,
                task,
                age,
                behind,
                cut,
                ..
            } => {
                write!(f, "loop {name} did not end in time: ")?;
                match cut.as_slice() {
                    [] => write!(
                        f,
                        "task `{task}` has been running for {age:?}, {behind} tasks wait behind it"
                    ),
                    cut => write!(f, "{task} has not returned, of {}", cut.join(", ")),
                }
            }
            Self::Panicked { message, .. } => write!(f, "the loop's driver panicked: {message}"),
            Self::NoThread { handed_back } => write!(
                f,
                "no thread could be started to run the shutdown hooks; {} tasks are handed back",
                handed_back.len()
            ),
            Self::HandDropped { handed_back } => write!(
                f,
                "the hand that drove the loop was dropped; {} tasks are handed back",
                handed_back.len()
            ),
            Self::Lost => f.write_str("the loop went away without reporting"),
        }
    }
}

tidegate_core::debug_as_display!(ShutdownError);

impl Error for ShutdownError {}

impl From<Abandoned> for ShutdownError {
    fn from(_: Abandoned) -> Self {
        Self::Lost
    }
}
