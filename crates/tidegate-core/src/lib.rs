//! The types that every crate of Tidegate shares: time, tasks, executors, threads, and the queues
//! between threads.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! | folder or file | content |
//! |---|---|
//! | `clock` | [`Clock`], [`ManualClock`], [`Ticker`], and clocks that are cheaper to read |
//! | `raw` | [`Task`] (a closure in four words), signals, and other types of unsafe code |
//! | [`executor`] | [`Executor`], [`Rejected`], the current executor and the wait policy of a thread |
//! | `lane` | queues into an event loop, and the doorbell that wakes the loop |
//! | `cancel` | [`CancelToken`] |
//! | `parker`, `spin_wait` | [`Parker`], in which a thread sleeps; the spinning before the sleep |
//! | [`permits`] | counted bounds |
//! | [`thread`] | [`ThreadBuilder`], the handles of threads, an executor with a thread per task |
//! | `trace` | events and spans for the crate `tracing`; hidden |
//! | `wait` | the check that refuses a wait that would deadlock |
//! | `wake_flag` | one message for many wake-ups |
//! | `collect` | [`Collect`]: how a type describes its metrics to an exporter |
//! | `contain` | [`CaughtPanic`]; runs user code that may panic |
//! | `dump` | [`Dump`]: the state of a part as a tree, as text and as a value |
//! | `unhandled` | [`Unhandled`] and [`OnUnhandled`]: errors that no other code handles |
//! | `sys` | the operating system and the processor; atomics and locks (std, loom or shuttle) |
//! | `internal` | hidden and unstable: what the other crates of this workspace need |
//! | `counter`, `cache_padded` | a counter; a value on cache lines of its own |
//! | `debug_as_display`, `debug_fields` | [`debug_as_display!`] and [`debug_fields!`] |
//!
//! Unsafe code exists only in `lane`, `raw` and `sys`. Every unsafe block has a comment that argues
//! its soundness, every atomic operation stronger than relaxed names its partner, and the
//! word-level protocols are model-checked (`cargo xtask loom`).
//!
//! Most programs use the names in the root, or the crate `tidegate`, which re-exports them. Code
//! that implements an executor needs [`executor`]; code that observes threads needs [`thread`].
#![deny(unsafe_code)]

mod cache_padded;
mod cancel;
mod clock;
mod collect;
mod contain;
mod counter;
mod debug_as_display;
mod debug_fields;
mod dump;
pub mod executor;
#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.
    //!
    //! The macros `debug_as_display!`, `debug_fields!` and, under shuttle, `scheduled_thread_local!`
    //! belong here too; the language exports macros at the root of the crate.

    pub use crate::cache_padded::CachePadded;
    pub use crate::clock::{ClockMember, CoarseClock, FastClock, Sleeper, TickerStop, as_nanos};
    pub use crate::contain::{contain, discard, discard_all};
    pub use crate::counter::Counter;
    pub use crate::dump::try_briefly;
    pub use crate::executor::watch_list::{Watch, WatchList};
    pub use crate::lane::doorbell::Doorbell;
    pub use crate::lane::signal::SignalLane;
    pub use crate::lane::task::{TaskLane, TaskLaneReceiver};
    pub use crate::raw::by_value::ByValue;
    #[cfg(not(tidegate_loom))]
    pub use crate::raw::home::HomeCell;
    pub use crate::raw::owner::OwnerCell;
    pub use crate::raw::running::{Running, RunningGuard, RunningTask};
    pub use crate::raw::signal::{Deliver, Delivery, SignalBlock, SignalHeader};
    pub use crate::raw::task::plain::PlainTask;
    pub use crate::raw::working::run_task_of_promise;
    pub use crate::spares::Spares;
    pub use crate::spin_wait::SpinWait;
    pub use crate::sys::futex::Futex;
    pub use crate::sys::prefetch::{prefetch, prefetch_block, prefetch_for_write};
    pub use crate::sys::prim::{self, lock, try_lock, unpoisoned};
    pub use crate::sys::thread::{thread_cpu_time, usable_cpus};
    pub use crate::thread::builder::run_exit_hooks;
    pub use crate::thread::handle::ThreadWatch;
    pub use crate::thread::start::at_thread_exit;
    pub use crate::trace::api as trace;
    pub use crate::wait::{
        Awaited, Capacity, WaitEdge, WaitGuard, change_width, check_may_block, check_wait,
        check_wait_for, needs_nothing, record_wait,
    };
    pub use crate::wake_flag::WakeFlag;
}
mod lane;
mod parker;
pub mod permits;
mod raw;
mod spares;
mod spin_wait;
mod sys;
#[cfg(all(test, not(tidegate_loom)))]
mod testing;
pub mod thread;
mod trace;
mod unhandled;
mod wait;
mod wake_flag;

pub use self::cancel::{CancelHook, CancelToken};
pub use self::clock::{Clock, ManualClock, ManualTicker, Ticker};
pub use self::collect::{Collect, Metric, MetricVisitor};
pub use self::contain::CaughtPanic;
pub use self::dump::{Dump, DumpValue};
pub use self::executor::{Executor, RejectReason, Rejected};
pub use self::parker::Parker;
pub use self::raw::task::Task;
pub use self::raw::vtable::Blocking;
pub use self::thread::ThreadBuilder;
pub use self::unhandled::{OnUnhandled, Unhandled};
pub use self::wait::WaitRefusedError;
