//! The ground floor of Tidegate: everything that threads use to meet.
//!
//! * Time: [`Clock`], [`ManualClock`], [`Ticker`]; sleeping: [`Parker`].
//! * Work: [`Task`] (a closure in four words), [`Executor`] (where it runs), [`Rejected`] (what
//!   comes back when it does not), [`CancelToken`], [`OnUnhandled`] (who hears of errors that
//!   nobody handles).
//! * The way into a loop: [`TaskLane`], [`SignalLane`], [`Doorbell`].
//! * User code that may panic: [`contain`], [`discard`], [`CaughtPanic`].
//! * Ownership and bounds: [`OwnerCell`], [`Permits`].
//! * Memory that is used at random: [`prefetch`].
//! * Threads: [`ThreadBuilder`], [`ThreadInfo`], the mark of the executor they run for and the
//!   record of who waits for whom.
//!
//! Unsafe code stands in `lane`, `raw` and `sys` only. Every unsafe block is argued where it
//! stands, every atomic operation that orders something names its partner, and the word-level
//! protocols are model-checked (`cargo xtask loom`).
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::counter::Counter;
    pub use crate::raw::signal::SignalHeader;
    pub use crate::sys::futex::Futex;
    pub use crate::sys::prefetch::for_writing;
}

mod cancel;
mod clock;
mod contain;
mod counter;
mod executor;
mod lane;
mod look_on;
mod mark;
mod parker;
mod permits;
#[doc(hidden)]
pub mod prim;
mod raw;
mod sentence;
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
pub use self::contain::{CaughtPanic, contain, discard, discard_all};
pub use self::executor::{
    Executor, ExecutorId, Refusal, RejectWith, Rejected, Unhandled, panic_message,
};
pub use self::lane::doorbell::Doorbell;
pub use self::lane::signal::{SignalBatch, SignalLane};
pub use self::lane::task::{TaskLane, TaskLaneEnd};
pub use self::look_on::LookOn;
pub use self::mark::{
    MarkGuard, Stance, begin_turn, blocking_allowed, current, enter, is_current, non_blocking,
    stance, turn,
};
pub use self::parker::Parker;
pub use self::permits::{Permit, PermitRef, Permits};
pub use self::raw::owner::OwnerCell;
pub use self::raw::running::{Running, RunningGuard, RunningTask};
pub use self::raw::signal::{Deliver, Delivery, Signal, SignalBlock};
pub use self::raw::task::{Blocking, Task};
pub use self::sys::prefetch::{prefetch, prefetch_block};
pub use self::sys::thread::{thread_cpu_time, thread_id, usable_cpus};
pub use self::thread::{
    BadPriority, JoinError, JoinPolicy, NotJoined, ThreadBuilder, ThreadEnd, ThreadHandle,
    ThreadInfo, ThreadJob, ThreadPerTask, ThreadState, ThreadWatch, at_thread_exit, run_exit_hooks,
};
pub use self::unhandled::OnUnhandled;
pub use self::wait::{WaitGuard, WaitRefused, change_width, check_stance, check_wait};
