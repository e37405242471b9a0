//! The state that the handles and the threads of a pool share.
//!
//! This file has only the data and what all other files of this folder need. Each other file adds
//! the methods of one operation to [`Shared`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::prim::Mutex;
use tidegate_core::internal::{ClockMember, FastClock, as_nanos, contain};
use tidegate_core::{
    CancelToken, CaughtPanic, Clock, OnUnhandled, Parker, Rejected, Task, ThreadBuilder, Unhandled,
};
use tidegate_promise::{SharedCompletion, promise_on};

use crate::executor::{EndHome, HandedBack, ShutdownError, UnstartedTasks, displacing};
use crate::ordered::Views;
use crate::pool::limits::PoolLimits;
use crate::pool::policy::PoolPolicy;
use crate::pool::queue::Job;
use crate::pool::raw::{DispatchGuard, Dispatcher};
use crate::pool::shutdown_report::ShutdownReport;
use crate::schedule::TaskTimer;

use super::counts::AtomicCounters;
use super::lanes::{Lanes, Purpose, UserLane};
use super::workers::{WorkerEntry, Workers};

/// The hook that is called when the pool becomes low on threads, or no longer is.
pub(crate) type OnLow = Arc<dyn Fn(bool) + Send + Sync>;

/// The hook that gets displaced jobs, which are dropped otherwise.
pub(crate) type OnDisplaced = Arc<dyn Fn(Task) + Send + Sync>;

/// An executor of the user that lends its threads: it runs each accepted task once, on a thread that
/// may block and is not the caller's.
pub(crate) type ThreadLender = Arc<dyn Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync>;

/// The dispatch guard of a pool.
pub(super) type PoolDispatchGuard<'a> = DispatchGuard<'a, Job, Lanes>;

/// The function that a thread of a pool runs, from its first job to its last. It is passed in when
/// the pool is created, because the code that starts threads lies below the code that they run.
pub(crate) type ThreadBody = fn(&Arc<Shared>, &Arc<WorkerEntry>, ClockMember, Purpose);

/// The shared state of one pool.
pub(crate) struct Shared {
    me: Weak<Self>,
    pub(super) id: ExecutorId,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) dispatcher: Dispatcher<Job, Lanes>,
    /// The same list as in the lanes, for readers that must not take the pool's lock.
    pub(super) workers: Arc<Workers>,
    pub(super) threads: ThreadBuilder,
    /// Which part of the user's broke its contract, and how, if that closed the pool.
    pub(super) failed_part: OnceLock<String>,
    /// Lends threads to the pool, in place of `threads`.
    pub(super) lender: Option<ThreadLender>,
    /// The function that each thread of the pool runs.
    pub(super) body: ThreadBody,
    pub(super) policy: PoolPolicy,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) on_low: Option<OnLow>,
    pub(super) on_displaced: Option<OnDisplaced>,
    /// The clock that times jobs; `None` if times are not measured.
    pub(super) times: Option<FastClock>,
    /// The maximum number of threads and the bound of the queue, for `room`; 0 once the pool is
    /// closed.
    pub(super) room: AtomicU64,
    /// Nanoseconds that a thread may be idle; 0 means for ever.
    pub(super) keep_alive: AtomicU64,
    /// Threads that waits may rely on, for the check for circular waits.
    pub(super) width: AtomicUsize,
    /// All threads that the pool may have, for the same check.
    pub(super) most: AtomicUsize,
    /// Leased threads that are not in use.
    pub(super) kept: AtomicUsize,
    /// The number of live handles. Dropping the last one closes the pool.
    pub(super) handles: AtomicUsize,
    /// The handles through which a program may still take what is handed back.
    pub(super) takers: AtomicUsize,
    /// The scheduled tasks of the pool and of its ordered views.
    pub(super) timer: Arc<TaskTimer>,
    /// The ordered views over the pool, which end with it.
    pub(super) views: Arc<Views>,
    pub(super) tallies: AtomicCounters,
    /// Cancelled when the pool takes no more jobs: ends the back-off of submitters.
    pub(super) closing: CancelToken,
    /// Cancelled when running jobs should stop.
    pub(super) stopping: CancelToken,
    pub(super) reaper: Mutex<Option<Parker>>,
    /// Notifies waiters when the pool has ended and left unstarted tasks.
    pub(super) left: UnstartedTasks,
    /// `None` once the pool has ended and has no taker. Jobs that were handed back hold a reference
    /// to the pool, so a report stored here would keep the pool and the jobs alive for ever.
    pub(super) ending: Mutex<Option<Ending>>,
}

/// The report of a pool's end.
pub(super) struct Ending {
    pub(super) stopped: SharedCompletion<ShutdownReport, ShutdownError>,
    /// The tasks that the report hands back.
    pub(super) handed_back: HandedBack,
}

/// The arguments of [`Shared::new`].
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) limits: PoolLimits,
    pub(crate) queue: UserLane,
    pub(crate) threads: ThreadBuilder,
    pub(crate) lender: Option<ThreadLender>,
    pub(crate) body: ThreadBody,
    pub(crate) policy: PoolPolicy,
    pub(crate) on_unhandled: OnUnhandled,
    pub(crate) on_low: Option<OnLow>,
    pub(crate) on_displaced: Option<OnDisplaced>,
    pub(crate) times: Option<FastClock>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let id = ExecutorId::next();
        let (promise, completion) = promise_on(EndHome::of(id, &parts.name, &parts.clock));
        // The completion is shared by all waiters, so none of them may cancel it.
        promise.set_uncancellable();
        let stopped = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let limits = parts.limits;
        let handed_back = HandedBack::default();
        let workers = Arc::<Workers>::default();
        let is_borrowed = parts.lender.is_some();
        let shared = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id,
            timer: TaskTimer::new(&parts.name, &parts.clock),
            views: Arc::default(),
            name: parts.name,
            clock: parts.clock,
            dispatcher: Dispatcher::new(
                Lanes::new(limits, parts.queue, promise, &workers),
                limits.dispatcher(0),
                limits.reserved,
            ),
            workers,
            threads: parts.threads,
            failed_part: OnceLock::new(),
            lender: parts.lender,
            body: parts.body,
            policy: parts.policy,
            on_unhandled: parts.on_unhandled,
            on_low: parts.on_low,
            on_displaced: parts.on_displaced,
            times: parts.times,
            room: AtomicU64::new(room_word(&limits)),
            keep_alive: AtomicU64::new(as_nanos(limits.keep_alive)),
            width: AtomicUsize::new(limits.width(0)),
            most: AtomicUsize::new(limits.max),
            kept: AtomicUsize::new(0),
            handles: AtomicUsize::new(1),
            takers: AtomicUsize::new(1),
            tallies: AtomicCounters::default(),
            closing: CancelToken::new(),
            stopping: CancelToken::new(),
            reaper: Mutex::default(),
            left: UnstartedTasks::of(&handed_back),
            ending: Mutex::new(Some(Ending {
                stopped,
                handed_back,
            })),
        });
        if is_borrowed {
            shared.dispatcher.turn().let_idle_leave();
        }
        shared
    }

    pub(super) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Reports an unhandled error to the pool's hook.
    pub(super) fn report_unhandled(&self, what: &Unhandled<'_>) {
        self.on_unhandled.report(&self.name, what);
    }

    /// Reports that a part of the pool that the user supplied has failed.
    pub(super) fn report_part(&self, part: &str, message: &str) {
        let part = format!("{part} of pool `{}`", self.name);
        self.report_unhandled(&Unhandled::PartFailed {
            part: &part,
            message,
        });
    }

    pub(super) fn report_panic(&self, task: &str, panic: CaughtPanic) {
        self.tallies.panics.fetch_add(1, Ordering::Relaxed);
        let message = panic.message();
        self.report_unhandled(&Unhandled::TaskPanic { task, message });
        drop(panic);
    }

    /// Drops displaced jobs: their promises fail with `DisplacedError`. A hook gets them instead.
    pub(super) fn displace(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            let name = job.name();
            let displaced = contain(|| match &self.on_displaced {
                Some(hook) => hook(job.into_task()),
                None => displacing(|| drop(job)),
            });
            if let Err(panic) = displaced {
                self.report_panic(name, panic);
            }
        }
    }
}

/// Packs the maximum number of threads and the bound of the queue into the word of
/// [`Shared::room`].
pub(super) fn room_word(limits: &PoolLimits) -> u64 {
    (limits.max as u64) << 32 | limits.queue as u64
}
