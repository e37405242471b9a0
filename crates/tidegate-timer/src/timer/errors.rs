//! The error type of the timer.

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
#[derive(Clone, PartialEq, Eq, tidegate_macros::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The wheel of the timer cannot be created.
    #[error("the wheel of the timer cannot be created; change its tick or its slots")]
    Geometry(#[source] WheelError),
    /// The timer has stopped and cannot be restarted.
    #[error("the timer has stopped; create another one")]
    Stopped,
    /// The timer's thread could not be started.
    #[error("the timer's thread could not be started; try again when the system has room")]
    NoThread,
    /// The timer's own thread cannot wait for its own end.
    #[error(
        "a task of the timer cannot wait for the end of its own timer; await the shutdown, or wait \
         for it on another thread"
    )]
    OwnThread,
    /// The calling thread may not wait for the timer's thread.
    #[error("the calling thread may not wait for the end of the timer; await the shutdown instead")]
    Refused(#[source] WaitRefusedError),
    /// The calling thread is in the spawner that starts the timer's thread.
    #[error(
        "the timer's thread is being started by this very call; use the timer when the spawner \
         has returned"
    )]
    Starting,
}

tidegate_core::debug_as_display!(TimerError);

impl From<WheelError> for TimerError {
    fn from(cause: WheelError) -> Self {
        Self::Geometry(cause)
    }
}
