//! What a watchdog says.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// A loop that is stuck.
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
    /// The loop's name.
    pub name: String,
    /// What it is in: the task's name, or the type of its closure.
    pub task: &'static str,
    /// The task's place in the order in which the loop started tasks.
    pub sequence: u64,
    /// How long it has been in it, at least.
    pub age: Duration,
    /// Where its thread is, if that was asked for and could be seen.
    pub backtrace: Option<Vec<String>>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            task,
            sequence,
            age,
            backtrace,
        } = self;
        write!(
            f,
            "loop {name} has been in task `{task}` (number {sequence}) for {age:?}"
        )?;
        for frame in backtrace.iter().flatten() {
            write!(f, "\n    {frame}")?;
        }
        Ok(())
    }
}

/// A loop that was stuck and goes on.
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
    /// The loop's name.
    pub name: String,
    /// What it was in.
    pub task: &'static str,
    /// That task's place in the order in which the loop started tasks.
    pub sequence: u64,
    /// How long it was seen in it; it came out of it before the next tick.
    pub lasted: Duration,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            task,
            sequence,
            lasted,
        } = self;
        write!(
            f,
            "loop {name} goes on after {lasted:?} in task `{task}` (number {sequence})"
        )
    }
}

/// Why there can be no such watchdog.
#[non_exhaustive]
pub enum WatchdogError {
    /// A threshold of zero calls every loop stuck.
    ZeroThreshold,
    /// No thread could be started to watch.
    NoThread(io::Error),
}

impl fmt::Display for WatchdogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroThreshold => {
                "a threshold of zero calls every loop stuck; give it at least a millisecond"
            }
            Self::NoThread(_) => {
                "no thread could be started to watch; try again when the system has room"
            }
        })
    }
}

tidegate_core::debug_as_display!(WatchdogError);

impl Error for WatchdogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::ZeroThreshold => None,
            Self::NoThread(error) => Some(error),
        }
    }
}
