//! Timers: a heap and a wheel as pure data structures, and a wheel with a thread of its own.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! [`Heap`] and [`Wheel`] own no thread, take no lock and read no clock: deadlines go in, due
//! entries come out. The caller passes the current time, so an event loop reads the clock once per
//! turn, and a test can simulate a year in a millisecond. [`WheelTimer`] gives a wheel a thread of
//! its own, for programs without event loops.
//!
//! # Four engines
//!
//! Tidegate has four timer engines. The first three are in this crate; the fourth is
//! `src/alarm` of `tidegate-isolate`.
//!
//! | engine | add, cancel | expire | precision | thread |
//! |---|---|---|---|---|
//! | [`Heap`] | O(log n) | O(log n) | exact | the owner's |
//! | [`Wheel`] | O(1) | O(1) | end of the tick, never early | the owner's |
//! | [`WheelTimer`] | wheel plus a lock | wheel plus a lock | as the wheel | one of its own |
//! | alarms (isolation) | two locked instructions | scan of the calls | exact | one per isolation |
//!
//! What each engine is for, and why the others do not fit:
//!
//! * **[`Heap`]**: scheduled and periodic tasks of an event loop or a worker pool, and delayed tasks
//!   of an isolation (retries, hedges, batches). A scheduled task runs at its exact time, and equal deadlines run
//!   in order of insertion. A wheel is late by up to a tick and does not sort by deadline within
//!   one.
//! * **[`Wheel`]**: timeouts and sleeps of an event loop. A server has one or two timeouts per
//!   connection, and nearly all of them are cancelled or reset. A heap pays O(log n) and a cache
//!   miss per level for each of these operations. With a wheel, a reset of such a timeout to a
//!   later deadline writes only the word of its cell. An entry far in the future is moved a few
//!   times before it expires.
//! * **[`WheelTimer`]**: timeouts of programs without event loops. A wheel has one owner. Such a
//!   program has no thread that turns the wheel, and its timeouts come from many threads. They
//!   share a wheel under a lock with the timer's thread, which sleeps until an entry is due.
//! * **Alarms**: the timeout of each call of a command. A call that ends in time should pay nearly
//!   nothing for its timeout. With a thousand other entries pending, adding and removing an entry
//!   takes 409 instructions in a `Wheel` private to the thread, which no thread would turn, 455 in
//!   a wheel that threads share under a lock, and 720 in a `WheelTimer`, which adds a task, a
//!   handle and a clock. A call instead writes its deadline into a record that its thread keeps for
//!   the next call, on a cache line of that thread: 27 instructions. The price is a scan, once per deadline that is reached, over all
//!   records that were ever in use at the same time. This suits calls, of which there are hundreds,
//!   but not connections, of which there are a million. The thread sleeps while no call is in
//!   flight. The bench suite `isolate` has the table in nanoseconds ("a timeout that is not
//!   needed").
//!
//! The engines share this code:
//!
//! * Time: a `u64` of nanoseconds that saturates at "never"
//!   ([`Clock::deadline`](tidegate_core::Clock::deadline)).
//! * [`TimerKey`] and its generations: `key.rs`, for the heap and the wheel.
//! * Rounding to ticks: `wheel/geometry.rs`, for the wheel and for the wake-ups of `WheelTimer`.
//! * Delayed tasks of an isolation wait in a [`Heap`]; only the calls of an isolation have an
//!   engine of their own.
//!
//! Starting and stopping the threads is not shared. A `WheelTimer` is stopped by a caller that
//! wants the unfired timeouts back. The thread of an isolation is detached: it ends with the last
//! handle, and starts again if work remains.
//!
//! # Files
//!
//! `key` is the lowest module. `raw` and `heap` use `key`; `wheel` uses `key` and `raw`; `insert`
//! uses `key`, `raw` and `wheel`; `timer`, with [`WheelTimer`], uses all modules but `heap`. Only
//! `raw` contains unsafe code.
//!
//! [`Heap`]: heap::Heap
//! [`Wheel`]: wheel::Wheel
//!
//! # Examples
//!
//! ```
//! use tidegate_timer::heap::Heap;
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
#![cfg_attr(
    not(feature = "timer"),
    allow(rustdoc::broken_intra_doc_links, reason = "the docs of the timer")
)]

pub mod heap;
#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::insert::insert_timeout;
    pub use crate::key::KeySlot;
    pub use crate::raw::{
        ArenaArray, HugePageArena, Reset, StillPending, TimeoutCell, TimeoutOutcome,
    };
}
mod insert;
mod key;
mod raw;
#[cfg(feature = "timer")]
mod timer;
pub mod wheel;

pub use self::key::TimerKey;
#[cfg(feature = "timer")]
pub use self::timer::{
    Shutdown, ShutdownReport, TimerError, TimerHandle, TimerMetrics, TimerTask, UnfiredTimeout,
    WheelTimer, WheelTimerBuilder,
};
