//! The jobs of a pool whose queue is the user's: what the pool keeps under its lock.
//!
//! The pool keeps the jobs. The user's queue gets a stand-in for each of them and decides the order,
//! so it can neither lose a job nor run one twice. A worker that is to run a job gets a *ticket*
//! under the lock. It then asks the queue, with no lock held, and claims the job that the queue
//! chooses.
//!
//! # Invariants
//!
//! * A job stays in the list until a ticket claims it, or until it is removed, displaced or drained.
//! * A job counts as queued unless a ticket is about to claim it: a new ticket is given out only if
//!   there are more jobs than tickets.
//! * Stand-ins are made when the queue is told, and dropped with no lock held: the drop of a token is
//!   user code.

use std::collections::HashSet;

use super::job::Job;
use super::job_list::JobList;
use super::job_queue::JobKey;

/// The changes that are kept before those that cancel each other are dropped.
const MIN_CHANGES: usize = 256;

/// The waiting jobs, and what the user's queue does not know yet.
#[derive(Debug, Default)]
pub(crate) struct LineJobs {
    /// In the order of their arrival.
    jobs: JobList,
    /// Workers that are about to claim a job.
    tickets: usize,
    changes: Vec<Change>,
    /// A worker with a ticket asks the user's queue right now.
    is_asking: bool,
    /// The user's queue is not used any more.
    is_plain: bool,
}

/// What a worker does if the user's queue has returned nothing to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AskingEnd {
    /// There is no job, or the worker was left behind: its ticket is gone.
    #[default]
    Over,
    /// It tells the queue the news and asks again.
    News,
    /// The queue should have had a job.
    Jobs,
}

/// What the user's queue has not been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Arrived(JobKey),
    Left(JobKey),
}

/// What the user's queue is told.
#[derive(Debug)]
pub(crate) enum News {
    /// A job has come; this stands in for it.
    Arrived(Job),
    /// A job has left.
    Left(JobKey),
}

impl LineJobs {
    pub(crate) fn push(&mut self, job: Job) -> JobKey {
        let key = self.jobs.push_back(job);
        self.note(Change::Arrived(key));
        key
    }

    /// Removes a job that leaves without a ticket.
    pub(crate) fn remove(&mut self, key: JobKey) -> Option<Job> {
        let job = self.jobs.remove(key)?;
        self.note(Change::Left(key));
        Some(job)
    }

    /// Returns a ticket for a worker, if there is a job for which there is none.
    pub(crate) fn take_ticket(&mut self) -> Option<Job> {
        (self.len() > 0).then(|| {
            self.tickets += 1;
            Job::ticket()
        })
    }

    fn return_ticket(&mut self) {
        self.tickets = self.tickets.saturating_sub(1);
    }

    /// Records that a worker with a ticket asks the user's queue. Returns `false` if the queue is not
    /// used any more.
    pub(crate) fn begin_asking(&mut self) -> bool {
        self.is_asking = !self.is_plain;
        self.is_asking
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Returns the ticket of the worker that asks, if there is nothing for it.
    pub(crate) fn end_asking(&mut self) -> AskingEnd {
        if !self.is_asking {
            return AskingEnd::Over;
        }
        if !self.changes.is_empty() {
            return AskingEnd::News;
        }
        if !self.jobs.is_empty() {
            return AskingEnd::Jobs;
        }
        self.revoke_ticket();
        AskingEnd::Over
    }

    /// Takes the ticket of the worker that asks, if there is one.
    pub(crate) fn revoke_ticket(&mut self) {
        if std::mem::take(&mut self.is_asking) {
            self.return_ticket();
        }
    }

    /// Removes the job that the user's queue has chosen for the worker that asks. Returns `None` if
    /// the job has left, or if the worker has lost its ticket.
    pub(crate) fn claim(&mut self, key: JobKey) -> Option<Job> {
        if !self.is_asking {
            return None;
        }
        let job = self.jobs.remove(key)?;
        self.revoke_ticket();
        Some(job)
    }

    /// Removes the oldest job for a ticket, or returns the ticket. Only for a line whose queue is not
    /// used any more.
    pub(crate) fn claim_oldest(&mut self) -> Option<Job> {
        self.return_ticket();
        self.jobs.pop_front()
    }

    /// The same for the worker that has asked, unless it has lost its ticket.
    pub(crate) fn claim_oldest_if_asking(&mut self) -> Option<Job> {
        if !std::mem::take(&mut self.is_asking) {
            return None;
        }
        self.claim_oldest()
    }

    /// Removes a job that the user's queue no longer has: it shed the job, or gave its place away.
    pub(crate) fn give_up(&mut self, key: JobKey) -> Option<Job> {
        self.jobs.remove(key)
    }

    /// Removes the oldest job that has no ticket. Only for a line whose queue is not used any more.
    pub(crate) fn displace_oldest(&mut self) -> Option<Job> {
        (self.len() > 0).then(|| self.jobs.pop_front()).flatten()
    }

    /// Returns what the queue has not been told. A job that has come and left is no news, but it may
    /// be told that the job has left.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        let changes = std::mem::take(&mut self.changes);
        let news = changes.into_iter().filter_map(|change| match change {
            Change::Arrived(key) => {
                let job = self.jobs.get(key)?;
                Some(News::Arrived(job.stand_in(key)))
            }
            Change::Left(key) => Some(News::Left(key)),
        });
        news.collect()
    }

    /// Lets the queue have a job again that it gave up and that did not leave.
    pub(crate) fn tell_again(&mut self, key: JobKey) {
        self.note(Change::Arrived(key));
    }

    fn note(&mut self, change: Change) {
        if self.is_plain {
            return;
        }
        self.changes.push(change);
        if self.changes.len() > MIN_CHANGES.max(2 * self.jobs.len()) {
            self.forget_short_stays();
        }
    }

    /// Stops recording news: the user's queue is not used any more.
    pub(crate) fn be_plain(&mut self) {
        self.is_plain = true;
        self.changes = Vec::new();
    }

    /// Moves all jobs to `left`, in the order of their arrival.
    pub(crate) fn drain(&mut self, left: &mut Vec<Job>) {
        while let Some(job) = self.jobs.pop_front() {
            left.push(job);
        }
        self.changes = Vec::new();
    }

    /// Returns the number of jobs for which there is no ticket.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len().saturating_sub(self.tickets)
    }

    /// Drops the changes of jobs that have come and left.
    #[cold]
    fn forget_short_stays(&mut self) {
        let mut came = HashSet::new();
        for change in &self.changes {
            if let Change::Arrived(key) = change {
                came.insert(key.0);
            }
        }
        let jobs = &self.jobs;
        self.changes.retain(|change| match change {
            Change::Arrived(key) => jobs.get(*key).is_some(),
            Change::Left(key) => !came.contains(&key.0),
        });
    }
}

#[cfg(test)]
mod tests {
    //! Tickets and news stay in step with the jobs.

    use tidegate_core::Task;

    use super::*;

    fn job(name: &'static str) -> Job {
        Job::new(Task::named(name, || ()))
    }

    #[test]
    fn a_job_has_one_ticket_and_stays_until_it_is_claimed() {
        let mut line = LineJobs::default();
        let (a, b) = (line.push(job("a")), line.push(job("b")));
        assert!(line.take_ticket().is_some_and(|job| job.is_ticket()));
        assert!(line.take_ticket().is_some() && line.take_ticket().is_none());
        assert_eq!(line.len(), 0, "both are about to run");
        assert!(line.claim(b).is_none(), "no worker asks");
        assert!(line.begin_asking());
        assert_eq!(line.claim(b).unwrap().name(), "b");
        assert!(line.claim(a).is_none(), "that ticket was used");
        assert_eq!(line.remove(a).unwrap().name(), "a", "it has not begun");
        assert!(line.begin_asking());
        assert_eq!(line.end_asking(), AskingEnd::News);
        assert_eq!(line.take_news().len(), 1, "that `a` has left");
        assert_eq!(line.end_asking(), AskingEnd::Over);
        let c = line.push(job("c"));
        assert_eq!(line.len(), 1, "no ticket is left over");
        assert!(line.take_ticket().is_some() && line.begin_asking());
        line.revoke_ticket();
        assert!(line.claim(c).is_none() && line.len() == 1);
    }

    #[test]
    fn jobs_that_come_and_leave_leave_no_trace() {
        let mut line = LineJobs::default();
        let kept = line.push(job("kept"));
        let known = line.push(job("known"));
        assert_eq!(line.take_news().len(), 2);
        drop(line.remove(known).unwrap());
        for _ in 0..10_000 {
            let key = line.push(job("short"));
            drop(line.remove(key).unwrap());
        }
        assert!(
            line.changes.len() <= MIN_CHANGES + 1,
            "{}",
            line.changes.len()
        );
        assert!(matches!(line.take_news()[0], News::Left(key) if key == known));
        assert!(line.jobs.get(kept).is_some());
    }
}
