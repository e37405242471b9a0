//! The reports of a watchdog.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// An event loop that is stuck.
///
/// ```
/// # use tidegate_loop::Stall;
/// fn describe(stall: &Stall) -> String {
///     format!("{}: `{}` for {:?}", stall.name, stall.task, stall.age)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The event loop's name.
    pub name: String,
    /// The name of the task that it is in, or the type of the task's closure. If it is stuck
    /// outside a task, the text is "a listener, a hook or the driver", or "its strategy, which does
    /// not ask for work".
    pub task: &'static str,
    /// The task's position in the order in which the event loop started tasks. Outside a task, the
    /// number of tasks started so far.
    pub sequence: u64,
    /// How long the event loop has been in the task, at least.
    pub age: Duration,
    /// The backtrace of the thread, if it was requested and could be taken.
    pub backtrace: Option<Vec<String>>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "loop {} has been in task `{}` (number {}) for {:?}",
            self.name, self.task, self.sequence, self.age
        )?;
        for frame in self.backtrace.iter().flatten() {
            write!(f, "\n    {frame}")?;
        }
        Ok(())
    }
}

/// An event loop that was stuck and continues.
///
/// ```
/// # use tidegate_loop::Recovered;
/// fn describe(recovered: &Recovered) -> String {
///     format!("{} lost {:?} to `{}`", recovered.name, recovered.lasted, recovered.task)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The event loop's name.
    pub name: String,
    /// The name of the task that it was in.
    pub task: &'static str,
    /// That task's position in the order in which the event loop started tasks.
    pub sequence: u64,
    /// The time from the first to the last tick that saw the event loop in the task. The real time
    /// is up to one tick longer at each end.
    pub lasted: Duration,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "loop {} goes on after {:?} in task `{}` (number {})",
            self.name, self.lasted, self.task, self.sequence
        )
    }
}

/// Why a watchdog was not started.
#[non_exhaustive]
pub enum WatchdogError {
    /// With a threshold of zero every event loop would count as stuck.
    ZeroThreshold,
    /// The watchdog's thread could not be started.
    NoThread(io::Error),
}

impl fmt::Display for WatchdogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroThreshold => f.write_str(
                "a threshold of zero calls every loop stuck; give it at least a millisecond",
            ),
            Self::NoThread(_) => f.write_str(
                "no thread could be started to watch; try again when the system has room",
            ),
        }
    }
}

impl Error for WatchdogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoThread(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(WatchdogError);
