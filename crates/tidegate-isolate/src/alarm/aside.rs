//! The callback threads of a command: they run user code that does not run on a caller's thread.
//!
//! This is a fallback after a timeout, a listener of a completion, the hooks of a token, a waker, a
//! due batch, or the `Drop` of work that left the queue. The timer only decides that they are due.
//! They run on threads that belong to one command, so however long they take, no other command
//! waits.
//!
//! # Bounds
//!
//! * Threads: as many as the command may run fallbacks or batches concurrently, and one more that
//!   can reject the next one. They start on demand and end when they are idle.
//! * Tasks: each belongs to an object that is bounded where it begins. A queued call and a batch
//!   reserve a place here before they are accepted ([`CallbackThreads::reserve`]), so a task is
//!   never rejected when it is due. A waker belongs to a future, which has one at a time. The hooks
//!   of tokens are rejected, and counted, above [`BACKLOG`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tidegate_core::internal::{PlainTask, trace};
use tidegate_core::permits::{Permit, Permits};
use tidegate_core::{CancelToken, Clock, OnUnhandled, Task, ThreadBuilder};
use tidegate_pool::{PoolLimits, WorkerPool};

use crate::in_flight::EntryTimeouts;
use crate::key::Key;
use crate::lock::lock;

/// The number of tasks of each kind that may wait for a thread, in addition to the bulkhead's own
/// capacity.
pub(crate) const BACKLOG: usize = 1024;
/// The largest number of threads for fallbacks and batches; there is one more for the rest.
const MOST_THREADS: usize = 63;
/// The queue's capacity: larger than the number of all reservations.
const QUEUE: usize = u32::MAX as usize - 1;

/// Starved tasks: the system had no thread for them. Each has the callback threads that run it.
pub(super) type StarvedTasks = Mutex<Vec<(Arc<CallbackThreads>, Task)>>;

/// The callback threads of one command.
#[derive(Debug)]
pub(crate) struct CallbackThreads {
    /// Identifies these threads in a call slot.
    pub(super) id: u64,
    key: Key,
    clock: Clock,
    unhandled: OnUnhandled,
    /// Starts the threads.
    starts: ThreadBuilder,
    threads: AtomicUsize,
    pool: OnceLock<WorkerPool>,
    /// Held by each call and batch that may have to end here.
    places: Permits,
    /// Tokens whose hooks are waiting for a thread or running.
    tokens: AtomicUsize,
    refused: AtomicU64,
    /// Keeps the tasks that the system has no thread for.
    starved: Weak<StarvedTasks>,
    /// The command, for the timeouts of its entries. It owns these threads.
    command: OnceLock<Weak<dyn EntryTimeouts>>,
}

impl CallbackThreads {
    pub(super) fn new(
        id: u64,
        key: &Key,
        starts: ThreadBuilder,
        (clock, unhandled): (&Clock, &OnUnhandled),
        starved: &Arc<StarvedTasks>,
    ) -> Self {
        Self {
            id,
            key: key.clone(),
            clock: clock.clone(),
            unhandled: unhandled.clone(),
            starts,
            threads: AtomicUsize::new(1),
            pool: OnceLock::new(),
            places: Permits::unlimited(),
            tokens: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            starved: Arc::downgrade(starved),
            command: OnceLock::new(),
        }
    }

    /// Sets the command that these threads belong to, once.
    pub(crate) fn set_command(&self, command: Weak<dyn EntryTimeouts>) {
        let is_first = self.command.set(command).is_ok();
        debug_assert!(is_first, "the threads belong to one command");
    }

    pub(super) fn command(&self) -> Option<Arc<dyn EntryTimeouts>> {
        self.command.get()?.upgrade()
    }

    /// Sets the number of fallbacks or batches that may run at the same time. The caller then makes
    /// sure that starved tasks are offered again.
    pub(super) fn set_width(&self, width: usize) {
        let threads = width.clamp(1, MOST_THREADS) + 1;
        if self.threads.swap(threads, Ordering::Relaxed) != threads
            && let Some(pool) = self.pool.get()
        {
            let resized = pool.resize(limits(threads));
            debug_assert!(resized.is_ok(), "the limits agree with each other");
        }
    }

    /// Reserves a place for a call or batch that may have to end here. Returns `None` while
    /// `capacity`, which is the bulkhead's own bound, and the backlog are used up.
    pub(crate) fn reserve(&self, capacity: usize) -> Option<Permit> {
        let ceiling = capacity.saturating_add(BACKLOG);
        let place = self.places.try_acquire_below(ceiling);
        if place.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// Returns the number of calls, batches and tokens that were rejected because these threads
    /// were busy.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Submits a task to a thread or to the queue. If there is no thread and the system refuses to
    /// start one, the task is starved.
    pub(super) fn run(self: &Arc<Self>, task: Task) {
        let pool = self.pool.get_or_init(|| self.new_pool());
        // The timer's thread is here, or a thread that holds a lock. A task that the system has no
        // thread for is offered again, so its refusal is no event.
        let _muted = trace::mute();
        if let Err(refused) = pool.execute_task(task) {
            self.starve(refused.into_inner());
        }
    }

    fn new_pool(self: &Arc<Self>) -> WorkerPool {
        let threads = self.threads.load(Ordering::Relaxed);
        let name = format!("tidegate-aside-{}", self.key);
        let pool = WorkerPool::builder(name).limits(limits(threads));
        let pool = pool.threads(self.starts.clone()).clock(&self.clock);
        // A task may be queued for a thread that another caller is starting. If the system then
        // refuses that thread, the pool displaces the task.
        let this = Arc::downgrade(self);
        let pool = pool.on_displaced(move |task| {
            if let Some(this) = this.upgrade() {
                this.starve(task);
            }
        });
        let pool = pool.report_to(self.unhandled.clone()).build();
        pool.expect("the limits agree with each other")
    }

    fn starve(self: &Arc<Self>, task: Task) {
        if let Some(starved) = self.starved.upgrade() {
            lock(&starved).push((Arc::clone(self), task));
        }
    }

    /// Returns a task that runs the hooks of a cancelled token. If too many are waiting already,
    /// counts that and returns `None`; the hooks then stay in the token.
    pub(super) fn hooks_of(self: &Arc<Self>, token: &CancelToken) -> Option<Task> {
        if self.tokens.fetch_add(1, Ordering::Relaxed) >= BACKLOG {
            self.tokens.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let (this, token) = (Arc::clone(self), token.clone());
        Some(PlainTask::named("hooks of a token", move || {
            token.run_hooks_to(&this.key, &this.unhandled);
            this.tokens.fetch_sub(1, Ordering::Relaxed);
        }))
    }
}

fn limits(threads: usize) -> PoolLimits {
    PoolLimits {
        core: 0,
        max: threads,
        queue: QUEUE,
        reserved: 0,
        ..PoolLimits::default()
    }
}
