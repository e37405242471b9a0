//! The requested shutdown of an event loop: its quiet period and its deadline.

use std::sync::Arc;

use tidegate_core::Clock;
use tidegate_core::internal::prim::{AtomicBool, Mutex, Ordering, lock};

use super::end_watch::EndWatch;

/// The parameters of a requested shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nanoseconds without a submission after which the event loop closes.
    pub(crate) quiet: u64,
    /// The time at which the event loop closes at the latest.
    pub(crate) deadline: u64,
    /// The number of tasks that had been started at the time of the request.
    pub(crate) started: u64,
}

impl Plan {
    /// Returns the stricter of two plans.
    pub(crate) fn stricter(self, other: Self) -> Self {
        Self {
            quiet: self.quiet.min(other.quiet),
            deadline: self.deadline.min(other.deadline),
            started: self.started.min(other.started),
        }
    }
}

/// The plan in effect, once a shutdown was requested.
pub(crate) struct ShutdownPlan {
    plan: Mutex<Option<Plan>>,
    /// `true` if the event loop cannot be shut down: the global one.
    never_ends: AtomicBool,
    /// Watches the shutdown, and those of the other event loops of the group.
    watch: Arc<EndWatch>,
}

impl ShutdownPlan {
    pub(crate) fn new(watch: Arc<EndWatch>) -> Self {
        Self {
            plan: Mutex::default(),
            never_ends: AtomicBool::new(false),
            watch,
        }
    }

    /// Merges a request into the plan; a second request can only make it stricter.
    pub(crate) fn tighten(&self, requested: Plan) {
        let mut plan = lock(&self.plan);
        *plan = Some(plan.map_or(requested, |plan| plan.stricter(requested)));
    }

    /// Returns the plan; `None` if no shutdown was requested.
    pub(crate) fn get(&self) -> Option<Plan> {
        *lock(&self.plan)
    }

    /// Returns `true` if there is a plan and its deadline has passed.
    #[cold]
    pub(crate) fn is_past_deadline(&self, clock: &Clock) -> bool {
        self.get()
            .is_some_and(|plan| clock.nanos() >= plan.deadline)
    }

    /// Makes the event loop ignore shutdown requests.
    pub(crate) fn set_endless(&self) {
        self.never_ends.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.never_ends.load(Ordering::Relaxed)
    }

    /// Returns what watches the shutdown.
    pub(crate) fn watch(&self) -> &Arc<EndWatch> {
        &self.watch
    }
}
