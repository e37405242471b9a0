//! How a job is accepted, and how the policies handle a job that was refused.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::internal::{contain, trace};
use tidegate_core::{Blocking, CancelHook, Executor, Parker, RejectReason, Rejected, Task};

use crate::pool::policy::PoolPolicy;
use crate::pool::queue::{Job, JobKey};

use super::lanes::Lane;
use super::shared::Shared;

impl Shared {
    /// Accepts a user job, or applies the policy to it, or returns it.
    #[inline]
    pub(crate) fn submit(&self, job: Job) -> Result<Option<JobKey>, Rejected<Job>> {
        match self.offer(job, Lane::User) {
            Err(refused) => self.refuse(refused),
            accepted => accepted,
        }
    }

    /// Accepts a job of the runtime itself, regardless of the queue's bound.
    pub(crate) fn submit_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.offer(Job::internal(task), Lane::Internal) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.map(Job::into_task)),
        }
    }

    #[cold]
    fn refuse(&self, refused: Rejected<Job>) -> Result<Option<JobKey>, Rejected<Job>> {
        let outcome = match (&self.policy, refused.why()) {
            (PoolPolicy::Backoff { attempts, pause }, RejectReason::Full)
                if !self.is_current() && wait_policy() == WaitPolicy::Free =>
            {
                self.back_off(refused, (*attempts).max(1), *pause)
            }
            (PoolPolicy::CallerRuns, RejectReason::Full) => self.run_here(refused),
            (PoolPolicy::With(ask), RejectReason::Full) => {
                let asked = ask(refused.map(Job::into_task));
                asked.map(|()| None).map_err(|back| back.map(Job::new))
            }
            _ => Err(refused),
        };
        if let Err(refused) = &outcome {
            self.tallies.refused.fetch_add(1, Ordering::Relaxed);
            if trace::is_on() {
                let (limit, now) = (&self.tallies.refusals, self.clock.nanos());
                trace::refused(limit, now, "pool", &self.name, &refused.why());
            }
        }
        outcome
    }

    fn back_off(
        &self,
        mut refused: Rejected<Job>,
        attempts: u32,
        pause: Duration,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let parker = Parker::new();
        let job = refused.into_inner();
        let _told = job.cancel_token().map(|token| wake_on(&parker, token));
        let _closed = wake_on(&parker, &self.closing);
        refused = Rejected::new(job, RejectReason::Full);
        for _ in 0..attempts {
            let until = self.clock.deadline(pause);
            let job = refused.into_inner();
            while self.clock.nanos() < until && !job.is_cancelled() && !self.closing.is_cancelled()
            {
                self.clock.park_until(&parker, Some(until));
            }
            if job.is_cancelled() {
                return Err(Rejected::new(job, RejectReason::Full));
            }
            match self.offer(job, Lane::User) {
                Err(again) => refused = again,
                accepted => return accepted,
            }
            if refused.why() != RejectReason::Full {
                break;
            }
        }
        Err(refused)
    }

    /// Runs the job on the submitter's thread, unless the job may block and the thread must not.
    fn run_here(&self, refused: Rejected<Job>) -> Result<Option<JobKey>, Rejected<Job>> {
        let job = refused.into_inner();
        if wait_policy() != WaitPolicy::Free && job.task().blocking() == Blocking::May {
            return Err(Rejected::new(job, RejectReason::Full));
        }
        self.tallies.caller_ran.fetch_add(1, Ordering::Relaxed);
        let name = job.name();
        if let Err(panic) = contain(|| job.into_task().run()) {
            self.report_panic(name, panic);
        }
        Ok(None)
    }
}

fn wake_on(parker: &Parker, token: &tidegate_core::CancelToken) -> CancelHook {
    token.unpark_on_cancel(parker)
}
