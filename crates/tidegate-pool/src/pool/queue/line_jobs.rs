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

use std::collections::HashSet;

use super::job::Job;
use super::job_list::JobList;
use super::job_queue::JobKey;

/// The news that are kept before those that cancel each other are dropped.
const MIN_NEWS: usize = 256;

/// The waiting jobs, and what the user's queue does not know yet.
#[derive(Debug, Default)]
pub(crate) struct LineJobs {
    /// In the order of their arrival.
    jobs: JobList,
    /// Workers that are about to claim a job.
    tickets: usize,
    news: Vec<News>,
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
#[derive(Debug)]
pub(crate) enum News {
    /// A job has come; this stands in for it.
    Arrived(Job),
    /// A job has left.
    Left(JobKey),
}

impl LineJobs {
    pub(crate) fn push(&mut self, job: Job) -> JobKey {
        if self.is_plain {
            return self.jobs.push_back(job);
        }
        let mut stand_in = job.stand_in(JobKey(0));
        let key = self.jobs.push_back(job);
        stand_in.since = key.0;
        self.add_news(News::Arrived(stand_in));
        key
    }

    /// Removes a job that leaves without a ticket.
    pub(crate) fn remove(&mut self, key: JobKey) -> Option<Job> {
        let job = self.jobs.remove(key)?;
        if !self.is_plain {
            self.add_news(News::Left(key));
        }
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
        if !self.news.is_empty() {
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

    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn add_news(&mut self, news: News) {
        self.news.push(news);
        if self.news.len() > MIN_NEWS.max(2 * self.jobs.len()) {
            self.forget_short_stays();
        }
    }

    /// Stops recording news: the user's queue is not used any more.
    pub(crate) fn be_plain(&mut self) {
        self.is_plain = true;
        self.news = Vec::new();
    }

    /// Moves all jobs to `left`, in the order of their arrival.
    pub(crate) fn drain(&mut self, left: &mut Vec<Job>) {
        while let Some(job) = self.jobs.pop_front() {
            left.push(job);
        }
        self.news = Vec::new();
    }

    /// Returns the number of jobs for which there is no ticket.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len().saturating_sub(self.tickets)
    }

    /// Drops the news of jobs that have come and left.
    #[cold]
    fn forget_short_stays(&mut self) {
        let came: HashSet<u64> = self.news.iter().filter_map(News::arrived).collect();
        let jobs = &self.jobs;
        self.news.retain(|news| match news {
            News::Arrived(stand_in) => jobs.contains(stand_in.stands_for()),
            News::Left(key) => !came.contains(&key.0),
        });
    }
}

impl News {
    fn arrived(&self) -> Option<u64> {
        match self {
            Self::Arrived(stand_in) => Some(stand_in.stands_for().0),
            Self::Left(_) => None,
        }
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
        assert_eq!(line.take_news().len(), 3);
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
        assert!(line.news.len() <= MIN_NEWS + 1, "{}", line.news.len());
        assert!(matches!(line.take_news()[0], News::Left(key) if key == known));
        assert!(line.jobs.contains(kept));
    }
}
