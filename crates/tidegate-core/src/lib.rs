//! The types that every crate of Tidegate shares: time, tasks, executors, threads, and the queues
//! between threads.
//!
//! | folder or file | content |
//! |---|---|
//! | `clock` | [`Clock`], [`ManualClock`], [`FastClock`], [`CoarseClock`], [`Ticker`] |
//! | `raw` | [`Task`] (a closure in four words), [`Signal`], [`OwnerCell`], [`Running`] |
//! | `executor` | [`Executor`], [`ExecutorId`], [`Rejected`]; [`current`] executor and [`stance`] |
//! | `lane` | queues into an event loop: [`TaskLane`], [`SignalLane`]; its wake-up: [`Doorbell`] |
//! | `cancel` | [`CancelToken`] |
//! | `parker`, `spin_wait` | [`Parker`], in which a thread sleeps; [`SpinWait`], which spins before |
//! | `permits` | [`Permits`], counted bounds |
//! | `thread` | [`ThreadBuilder`], [`ThreadHandle`], [`ThreadInfo`], [`ThreadPerTask`] |
//! | `wait` | [`check_wait`], which refuses a wait that would deadlock |
//! | `contain` | [`contain()`], [`discard`], [`CaughtPanic`]: user code that may panic |
//! | `unhandled` | [`Unhandled`] and [`OnUnhandled`]: errors that no other code handles |
//! | `sys` | access to the operating system and the processor, including [`prefetch`] |
//! | `prim`, `counter`, `sentence` | atomics for models; a counter; [`debug_as_display!`] |
//!
//! Unsafe code exists only in `lane`, `raw` and `sys`. Every unsafe block has a comment that argues
//! its soundness, every atomic operation stronger than relaxed names its partner, and the
//! word-level protocols are model-checked (`cargo xtask loom`).
//!
//! # Hidden items
//!
//! These are public only for the other crates of this workspace. They are unstable: they change
//! without notice and without a change of the version number.
//!
//! * [`internal`]: parts of the raw types that other crates build on.
//! * [`prim`]: atomics, locks and threads. A program gets std's, a model gets loom's or shuttle's.
//! * The macros `debug_as_display!` and, under shuttle, `scheduled_thread_local!`.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod internal {
    //! Unstable; see "Hidden items" in the documentation of the crate.

    pub use crate::counter::Counter;
    pub use crate::raw::signal::SignalHeader;
    pub use crate::sys::futex::Futex;
    pub use crate::sys::prefetch::prefetch_for_write;
}

mod cancel;
mod clock;
mod contain;
mod counter;
mod executor;
mod lane;
mod parker;
mod permits;
#[doc(hidden)]
pub mod prim;
mod raw;
mod sentence;
mod spin_wait;
mod sys;
#[cfg(all(test, not(tidegate_loom)))]
mod testing;
mod thread;
mod unhandled;
mod wait;

pub use crossbeam_utils::CachePadded;

pub use self::cancel::{CancelHook, CancelToken, Interrupted};
pub use self::clock::{
    Clock, ClockMember, CoarseClock, FastClock, ManualClock, ManualTicker, Sleeper, Ticker,
    TickerStop, as_nanos,
};
pub use self::contain::{CaughtPanic, contain, discard, discard_all, panic_message};
pub use self::executor::{
    CurrentGuard, Executor, ExecutorId, RejectHandler, RejectReason, Rejected, WaitPolicy,
    begin_turn, blocking_allowed, current, enter, is_current, non_blocking, stance, turn,
};
pub use self::lane::doorbell::Doorbell;
pub use self::lane::signal::{SignalBatch, SignalLane};
pub use self::lane::task::{TaskLane, TaskLaneReceiver};
pub use self::parker::Parker;
pub use self::permits::{Permit, PermitRef, Permits};
pub use self::raw::owner::OwnerCell;
pub use self::raw::running::{Running, RunningGuard, RunningTask};
pub use self::raw::signal::{Deliver, Delivery, Signal, SignalBlock};
pub use self::raw::task::Task;
pub use self::raw::vtable::Blocking;
pub use self::spin_wait::SpinWait;
pub use self::sys::prefetch::{prefetch, prefetch_block};
pub use self::sys::thread::{thread_cpu_time, thread_id, usable_cpus};
pub use self::thread::{
    JoinError, JoinErrorKind, JoinPolicy, PriorityError, ThreadBuilder, ThreadEnd, ThreadHandle,
    ThreadInfo, ThreadJob, ThreadPerTask, ThreadState, ThreadWatch, at_thread_exit, run_exit_hooks,
};
pub use self::unhandled::{OnUnhandled, Unhandled};
pub use self::wait::{WaitGuard, WaitRefusedError, change_width, check_may_block, check_wait};
