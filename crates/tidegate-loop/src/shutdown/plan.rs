//! What was asked of a loop at its end: how long to wait for quiet, and until when at most.

use tidegate_core::prim::{AtomicBool, Mutex, Ordering, lock};
use tidegate_core::{Clock, Parker};

/// What a loop was asked to do on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nanoseconds without a submission after which the loop closes.
    pub(crate) quiet: u64,
    /// The moment at which it closes at the latest.
    pub(crate) deadline: u64,
    /// Tasks that had been started when it was asked.
    pub(crate) started: u64,
}

impl Plan {
    /// The stricter of two plans.
    pub(crate) fn stricter(self, other: Self) -> Self {
        Self {
            quiet: self.quiet.min(other.quiet),
            deadline: self.deadline.min(other.deadline),
            started: self.started.min(other.started),
        }
    }
}

/// The plan that counts, once the loop was asked to end.
#[derive(Default)]
pub(crate) struct ShutdownPlan {
    plan: Mutex<Option<Plan>>,
    /// The loop cannot be shut down: the global one.
    endless: AtomicBool,
    /// Where the thread that watches the loop's end sleeps.
    watcher: Mutex<Option<Parker>>,
}

impl ShutdownPlan {
    /// Adds what is asked now; a second request can only make the plan stricter.
    pub(crate) fn ask(&self, asked: Plan) {
        let mut plan = lock(&self.plan);
        *plan = Some(plan.map_or(asked, |plan| plan.stricter(asked)));
    }

    /// The plan; `None` if the loop was not asked to end.
    pub(crate) fn get(&self) -> Option<Plan> {
        *lock(&self.plan)
    }

    /// Returns `true` if there is a plan and its deadline has passed.
    #[cold]
    pub(crate) fn is_past_deadline(&self, clock: &Clock) -> bool {
        self.get()
            .is_some_and(|plan| clock.nanos() >= plan.deadline)
    }

    /// Makes requests count for nothing.
    pub(crate) fn set_endless(&self) {
        self.endless.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.endless.load(Ordering::Relaxed)
    }

    /// Notes where the thread that watches the end sleeps.
    pub(crate) fn set_watcher(&self, parker: &Parker) {
        *lock(&self.watcher) = Some(parker.clone());
    }

    /// Makes that thread look at the plan again.
    pub(crate) fn wake_watcher(&self) {
        if let Some(watcher) = &*lock(&self.watcher) {
            watcher.unpark();
        }
    }
}
