//! What the handles of a pool and its threads share.
//!
//! Only the data, and what every other file of this folder needs of it. What a pool does is in those
//! files: each adds its methods to [`Shared`] and knows only files below it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::prim::Mutex;
use tidegate_core::{
    CancelToken, CaughtPanic, Clock, ClockMember, ExecutorId, FastClock, OnUnhandled, Parker,
    ThreadBuilder, Unhandled, as_nanos, contain,
};

use crate::executor::{HandedBack, Left};
use crate::pool::limits::PoolLimits;
use crate::pool::policy::{PoolPolicy, displacing};
use crate::pool::queue::{Job, JobQueue};
use crate::pool::raw::{Desk, Turn};
use crate::pool::stop_report::Stopped;

use super::counts::Tells;
use super::lanes::{Lanes, Post, Purpose};

/// Hears that the pool is low on threads, or is not any more.
pub(crate) type OnLow = Arc<dyn Fn(bool) + Send + Sync>;

/// A turn at the desk of a pool.
pub(super) type PoolTurn<'a> = Turn<'a, Job, Lanes>;

/// What a thread of a pool runs, from its first job to its last. Starting a thread lies below what the
/// thread does, so the pool is told the latter when it is made.
pub(crate) type ThreadBody = fn(&Arc<Shared>, &Arc<Post>, ClockMember, Purpose);

/// The shared side of one pool.
pub(crate) struct Shared {
    me: Weak<Self>,
    pub(super) id: ExecutorId,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) desk: Desk<Job, Lanes>,
    pub(super) threads: ThreadBuilder,
    /// What each of the pool's threads runs.
    pub(super) body: ThreadBody,
    pub(super) policy: PoolPolicy,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) on_low: Option<OnLow>,
    /// What jobs are timed by, if they are.
    pub(super) times: Option<FastClock>,
    /// Maximum and bound, for `room`; 0 once the pool is closed.
    pub(super) room: AtomicU64,
    /// Nanoseconds that a thread may be idle; 0 means for ever.
    pub(super) keep_alive: AtomicU64,
    /// Threads that may wait for each other, for the check of waits.
    pub(super) width: AtomicUsize,
    /// Threads that were leased and are not used yet.
    pub(super) kept: AtomicUsize,
    pub(super) handles: AtomicUsize,
    pub(super) tells: Tells,
    /// Tripped when no more jobs are taken: ends whoever waits for a place.
    pub(super) closing: CancelToken,
    /// Tripped when running jobs should stop.
    pub(super) stopping: CancelToken,
    pub(super) reaper: Mutex<Option<Parker>>,
    /// What was accepted and has not begun.
    pub(super) left: Left,
    /// Gone once the pool is over and nobody has a handle: jobs that were handed back hold on to
    /// their pool, and would keep it and themselves alive.
    pub(super) ending: Mutex<Option<Ending>>,
}

/// What is left to see of a pool that ends.
pub(super) struct Ending {
    pub(super) stopped: Stopped,
    /// The tasks of the report.
    pub(super) handed_back: HandedBack,
}

/// What a new pool is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) limits: PoolLimits,
    pub(crate) queue: Box<dyn JobQueue>,
    pub(crate) threads: ThreadBuilder,
    pub(crate) body: ThreadBody,
    pub(crate) policy: PoolPolicy,
    pub(crate) on_unhandled: OnUnhandled,
    pub(crate) on_low: Option<OnLow>,
    pub(crate) times: Option<FastClock>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let (promise, completion) = tidegate_promise::promise_of();
        // An end is shared by all who wait for it: none of them can cancel it.
        promise.set_uncancellable();
        let stopped = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let limits = parts.limits;
        let handed_back = HandedBack::default();
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name: parts.name,
            clock: parts.clock,
            desk: Desk::new(
                Lanes::new(limits, parts.queue, promise),
                limits.desk(0),
                limits.reserved,
            ),
            threads: parts.threads,
            body: parts.body,
            policy: parts.policy,
            on_unhandled: parts.on_unhandled,
            on_low: parts.on_low,
            times: parts.times,
            room: AtomicU64::new(room_word(&limits)),
            keep_alive: AtomicU64::new(as_nanos(limits.keep_alive)),
            width: AtomicUsize::new(limits.width(0)),
            kept: AtomicUsize::new(0),
            handles: AtomicUsize::new(1),
            tells: Tells::default(),
            closing: CancelToken::new(),
            stopping: CancelToken::new(),
            reaper: Mutex::default(),
            left: Left::of(&handed_back),
            ending: Mutex::new(Some(Ending {
                stopped,
                handed_back,
            })),
        })
    }

    pub(super) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Reports what nobody else handles to the pool's hook.
    pub(super) fn report_unhandled(&self, what: &Unhandled<'_>) {
        self.on_unhandled.tell(&self.name, what);
    }

    pub(super) fn hear_panic(&self, task: &str, panic: CaughtPanic) {
        self.tells.panics.fetch_add(1, Ordering::Relaxed);
        let message = panic.message();
        self.report_unhandled(&Unhandled::TaskPanic { task, message });
        drop(panic);
    }

    /// Drops jobs that had to make room; their promises say so.
    pub(super) fn displace(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            let name = job.name();
            let dropped = contain(|| displacing(|| drop(job)));
            if let Err(panic) = dropped {
                self.hear_panic(name, panic);
            }
        }
    }
}

/// Packs the maximum of threads and the bound of the queue into the word of [`Shared::room`].
pub(super) fn room_word(limits: &PoolLimits) -> u64 {
    (limits.max as u64) << 32 | limits.queue as u64
}
