//! Timers: structures as pure data, and a thread around one of them.
//!
//! [`Heap`] and [`Wheel`] own no thread, take no lock and read no clock: deadlines in, due entries
//! out. The caller says what time it is, so a loop asks once per turn and a test can turn a year
//! in a millisecond.
//!
//! [`Heap`] is the *precise* class of an event loop: exact order by deadline, O(log n) to add,
//! to take and to cancel. It holds what the loop was asked to run at a certain time.
//!
//! [`Wheel`] is the *coarse* class: due to the tick, O(1) for everything, for the many timeouts that
//! almost never fire. [`WheelTimer`] gives a wheel a thread, for programs without loops.
//!
//! # Examples
//!
//! ```
//! use tidegate_timer::Heap;
//!
//! let mut timers = Heap::new();
//! timers.insert(300, "later");
//! let key = timers.insert(100, "cancelled");
//! timers.insert(200, "soon");
//!
//! assert_eq!(timers.remove(key), Some("cancelled"));
//! assert_eq!(timers.next_deadline(), Some(200));
//!
//! let due = timers.pop_due(250).expect("200 is not after 250");
//! assert_eq!((due.deadline, due.value), (200, "soon"));
//! assert!(timers.pop_due(250).is_none());
//! ```

#![deny(unsafe_code)]

mod heap;
mod key;
#[doc(hidden)]
pub mod raw;
mod timer;
mod wheel;

pub use self::heap::{Drain, Due, Heap};
pub use self::key::Key;
pub use self::timer::{
    Stopping, TimerError, TimerHandle, TimerMetrics, TimerTask, Unfired, WheelTimer,
    WheelTimerBuilder,
};
pub use self::wheel::{Expired, Wheel, WheelDrain, WheelError};
