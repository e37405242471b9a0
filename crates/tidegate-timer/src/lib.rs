//! Timers: structures as pure data, and a thread around one of them.
//!
//! [`Heap`] and [`Wheel`] own no thread, take no lock and read no clock: deadlines in, due entries
//! out. The caller says what time it is, so a loop asks once per turn and a test can turn a year
//! in a millisecond. [`WheelTimer`] gives a wheel a thread, for programs without loops.
//!
//! # Four engines
//!
//! Tidegate has four timer engines. The first three are in this crate; the fourth is
//! `src/alarm` of `tidegate-isolate`.
//!
//! | engine | used by | add, cancel | expire | precision | thread |
//! |---|---|---|---|---|---|
//! | [`Heap`] | scheduled and periodic tasks of a loop; delayed tasks of an isolation (retries, hedges, batches) | O(log n) each | O(log n) | exact, in order of deadline and insertion | none: the owner's |
//! | [`Wheel`] | timeouts and sleeps of a loop; [`WheelTimer`] | O(1) each; a later deadline costs one word | O(1), and up to a few moves of an entry that is far ahead | to the end of the tick, never early | none: the owner's |
//! | [`WheelTimer`] | programs without loops | a wheel's, plus a push into a lane; from any thread | a wheel's, plus a word that decides against a cancellation | as the wheel | one of its own, asleep until something is due |
//! | alarms of an isolation | the timeout of each call of a command | two locked instructions, on a line of the calling thread | a look at every call under way | exact to the clock | one per isolation, asleep while no call is made |
//!
//! Why each exists, and why the others do not do:
//!
//! * **[`Heap`]**: a scheduled task runs at its time and in its order. A wheel is late by up to a
//!   tick, and keeps no order inside one.
//! * **[`Wheel`]**: a server has a timeout or two per connection, nearly all of them cancelled or
//!   reset. A heap pays O(log n) and a cache miss per level for each.
//! * **[`WheelTimer`]**: a wheel has one owner. A program without a loop has no thread that turns
//!   it, and its timeouts come from many threads.
//! * **Alarms**: a call that ends in time should pay nearly nothing for its timeout. With a thousand
//!   others waiting, adding and removing one takes 409 instructions in a `Wheel` of the thread's
//!   own, which nobody would turn, 455 in one that threads share under a lock, and 754 in a
//!   `WheelTimer`. A call instead writes its deadline into a record that its thread keeps for the
//!   next call: 27 instructions. The price is a look over all records that were ever in use at the
//!   same time, once per deadline that is reached; so it suits calls, of which there are hundreds,
//!   and not connections, of which there are a million. The bench suite `isolate` has the table in
//!   nanoseconds ("a timeout that is not needed").
//!
//! What they share is written once:
//!
//! * Time is a `u64` of nanoseconds that saturates at "never"
//!   ([`Clock::deadline`](tidegate_core::Clock::deadline)).
//! * [`Key`] and its generations: `key.rs`, for heap and wheel.
//! * Rounding to ticks: `wheel/geometry.rs`, for the wheel and for the wake-ups of `WheelTimer`.
//! * The word that decides between expiry, cancellation and reset: `raw/timeout/cell.rs`, for the
//!   timeouts of loops and of `WheelTimer`. Putting such a timeout into a wheel: `place.rs`.
//! * Delayed tasks of an isolation wait in a [`Heap`]; only its calls have an engine of their own.
//!
//! Not shared: starting and stopping the threads. A `WheelTimer` is stopped by a caller that wants
//! back what did not fire; the thread of an isolation is detached, ends with its last handle, and
//! starts again when work is left over.
//!
//! # Files
//!
//! `key` lies at the bottom. `raw` and `heap` know it, `wheel` knows both `key` and `raw`, `place`
//! knows those three, and `timer`, with [`WheelTimer`], all but `heap`. Unsafe code stands in `raw`
//! only.
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
#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::key::KeySlot;
    pub use crate::place::place;
}
mod key;
mod place;
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
