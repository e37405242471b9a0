//! The error type of the timer.

use std::error::Error;
use std::fmt;

use tidegate_core::WaitRefusedError;

use crate::wheel::WheelError;

/// The reason why an operation of a timer failed.
///
/// # Examples
///
/// ```
/// use tidegate_timer::{TimerError, WheelTimer};
///
/// let timer = WheelTimer::new();
/// timer.stop()?;
/// assert_eq!(timer.start(), Err(TimerError::Stopped));
/// # Ok::<(), TimerError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerError {
    /// The wheel of the timer cannot be created.
    Geometry(WheelError),
    /// The timer has stopped and cannot be restarted.
    Stopped,
    /// The timer's thread could not be started.
    NoThread,
    /// The timer's own thread cannot wait for its own end.
    OwnThread,
    /// The calling thread may not wait for the timer's thread.
    Refused(WaitRefusedError),
    /// The calling thread is in the spawner that starts the timer's thread.
    Starting,
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(why) => return write!(f, "the timer was not stopped: {why}"),
            Self::Geometry(_) => "the wheel of the timer cannot be made",
            Self::Stopped => "the timer has stopped; make another one",
            Self::NoThread => "no thread could be started; try again when the system has room",
            Self::OwnThread => {
                "a timer cannot be stopped by its own task; begin the stop and await it, or stop it \
                 from another thread"
            }
            Self::Starting => {
                "the timer's thread is being started by this very call; use the timer when the \
                 spawner has returned"
            }
        })
    }
}

tidegate_core::debug_as_display!(TimerError);

impl Error for TimerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Geometry(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<WheelError> for TimerError {
    fn from(cause: WheelError) -> Self {
        Self::Geometry(cause)
    }
}
