//! How a task is submitted: into the event loop's own queue on its own thread, into the lane from
//! other threads. If the queue is full, the [`RejectPolicy`] decides.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::executor::{
    ExecutorId, Need, Signal, WaitPolicy, Work, is_current, wait_policy,
};
use tidegate_core::internal::{WatchList, trace};
use tidegate_core::{
    Clock, Executor, Parker, RejectReason, Rejected, Task, Unhandled, WaitRefusedError,
};

use super::reject::RejectPolicy;
use crate::state::shared::Shared;
use crate::thread::local;

/// A pause longer than this also ends when the event loop ends. A shorter one ends soon anyway, and
/// a listener for the end costs more than the pause.
const LONG_PAUSE: Duration = Duration::from_millis(10);

impl Shared {
    /// Accepts a task from any thread, or returns the refusal.
    #[inline]
    pub(crate) fn submit(&self, task: Task) -> Result<(), Rejected<Task>> {
        if is_current(self.id) {
            return local::push(task).or_else(|refused| self.refuse(refused));
        }
        if self.state.needs_thread()
            && let Err(refusal) = self.start()
        {
            return Err(Rejected::new(task, refusal));
        }
        match self.mailbox.lane.push(task) {
            Ok(_) => {
                self.ring();
                Ok(())
            }
            Err(refused) => self.refuse(refused),
        }
    }

    /// Applies the reject policy to a task that the lane did not accept.
    #[cold]
    pub(crate) fn refuse(&self, refused: Rejected<Task>) -> Result<(), Rejected<Task>> {
        let outcome = match (&self.reject, refused.why()) {
            (RejectPolicy::Backoff { attempts, pause }, RejectReason::Full)
                if !is_current(self.id) && wait_policy() == WaitPolicy::Free =>
            {
                self.back_off(refused, (*attempts).max(1), *pause)
            }
            (RejectPolicy::With(ask), RejectReason::Full) => ask(refused),
            _ => Err(refused),
        };
        if let Err(refused) = &outcome {
            self.meter.counters.refused.fetch_add(1, Ordering::Relaxed);
            if trace::is_on() {
                let (limit, now) = (&self.meter.refusals, self.clock.nanos());
                trace::refused(limit, now, "event_loop", &self.name, &refused.why());
            }
        }
        outcome
    }

    fn back_off(
        &self,
        mut refused: Rejected<Task>,
        attempts: u32,
        pause: Duration,
    ) -> Result<(), Rejected<Task>> {
        let parker = Parker::new();
        let _listening = (pause > LONG_PAUSE).then(|| {
            let parker = parker.clone();
            self.termination
                .completion()
                .listen(move |_| parker.unpark())
        });
        for _ in 0..attempts {
            self.ring();
            let until = self.clock.deadline(pause);
            while self.clock.nanos() < until && !self.mailbox.lane.is_closed() {
                self.clock.park_until(&parker, Some(until));
            }
            match self.mailbox.lane.push(refused.into_inner()) {
                Ok(_) => {
                    self.ring();
                    return Ok(());
                }
                Err(again) => refused = again,
            }
            if refused.why() == RejectReason::Closed {
                break;
            }
        }
        Err(refused)
    }
}

/// The event loop as an [`Executor`], for promises and other crates. An `Arc` of it does not keep
/// the event loop running.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.mailbox.signals.push(signal)?;
        self.ensure_thread();
        self.ring();
        Ok(())
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A roaming loop also needs the threads on which its strategy runs its work.
    fn needs(&self, work: Work) -> Vec<Need> {
        if matches!(self.reject, RejectPolicy::With(_)) && work != Work::Own {
            // The policy may run it anywhere.
            return Vec::new();
        }
        let mut needs = vec![Need::thread_of(self.id)];
        if self.settings.driven
            && let Some(strategy) = self.thread.strategy()
        {
            needs.extend(strategy.needs(work != Work::Own, &self.drivers));
        }
        needs
    }

    fn has_abandoned_tasks(&self) -> bool {
        self.termination.has_abandoned_tasks()
    }

    fn watch_list(&self) -> Option<&Arc<WatchList>> {
        Some(self.termination.watch_list())
    }

    /// Refuses a wait of a task for its own event loop if the strategy does not drive the loop until
    /// the task has ended.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        if !self.settings.driven {
            return Ok(None);
        }
        let strategy = self.thread.strategy();
        match strategy.is_some_and(|strategy| strategy.holds_production()) {
            true => Err(WaitRefusedError::deadlock(vec![self.name.clone()])),
            false => Ok(None),
        }
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        Self::unhandled(self, what);
    }
}
