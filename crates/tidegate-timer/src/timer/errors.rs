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
/// drop(timer.shutdown().wait()?);
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
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry(_) => f.write_str(
                "the wheel of the timer cannot be created; change its tick or its slots",
            ),
            Self::Stopped => f.write_str("the timer has stopped; create another one"),
            Self::NoThread => f.write_str(
                "the timer's thread could not be started; try again when the system has room",
            ),
            Self::OwnThread => f.write_str(
                "a task of the timer cannot wait for the end of its own timer; await the \
                 shutdown, or wait for it on another thread",
            ),
            Self::Refused(_) => f.write_str(
                "the calling thread may not wait for the end of the timer; await the \
                 shutdown instead",
            ),
        }
    }
}

impl Error for TimerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Geometry(why) => Some(why),
            Self::Refused(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(TimerError);

impl From<WheelError> for TimerError {
    fn from(cause: WheelError) -> Self {
        Self::Geometry(cause)
    }
}
