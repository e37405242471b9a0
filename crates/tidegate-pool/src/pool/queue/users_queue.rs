//! A queue of the user's own, as the pool uses it.
//!
//! The pool keeps the jobs. The queue gets a stand-in for each of them and only decides the order,
//! so whatever it does costs no job. What it does wrong is a [`Breach`], after which it is not called
//! again.

use std::collections::HashMap;
use std::fmt;

use tidegate_core::internal::{contain, discard};

use super::job::Job;
use super::job_list::JobList;
use super::job_queue::{JobKey, JobQueue, Popped};

/// What a queue did that its contract forbids.
#[derive(Debug)]
pub(crate) struct Breach(pub(crate) String);

/// The jobs, and the queue that decides their order.
pub(crate) struct UsersQueue {
    /// `None` once the queue was dropped.
    queue: Option<Box<dyn JobQueue>>,
    jobs: JobList,
    /// The queue's key of each job, by the pool's key.
    keys: HashMap<u64, JobKey>,
}

impl UsersQueue {
    pub(crate) fn new(queue: impl JobQueue) -> Self {
        Self {
            queue: Some(Box::new(queue)),
            jobs: JobList::default(),
            keys: HashMap::new(),
        }
    }

    /// Adds a job, which is kept even if the queue fails.
    pub(crate) fn push(&mut self, job: Job) -> (JobKey, Result<(), Breach>) {
        let mut stand_in = job.stand_in();
        let key = self.jobs.push_back(job);
        stand_in.since = key.0;
        let pushed = self.call("push", |queue| queue.push(stand_in));
        let told = pushed.map(|theirs| {
            self.keys.insert(key.0, theirs);
        });
        (key, told)
    }

    pub(crate) fn pop(&mut self) -> Result<Option<Popped>, Breach> {
        if self.jobs.is_empty() {
            return Ok(None);
        }
        // The stand-in is dropped in the call: it may be a job of the queue's own.
        let popped = self.call("pop", |queue| match queue.pop()? {
            Popped::Run(job) => Some((job.stands_for(), Popped::Run as fn(Job) -> Popped)),
            Popped::Shed(job) => Some((job.stands_for(), Popped::Shed as fn(Job) -> Popped)),
        })?;
        let Some((key, popped)) = popped else {
            let lost = self.keys.len();
            return Err(Breach(format!("it lost {lost} of its jobs")));
        };
        self.claim(key).map(popped).map(Some)
    }

    /// Removes a job, whatever the queue does.
    pub(crate) fn remove(&mut self, key: JobKey) -> (Option<Job>, Result<(), Breach>) {
        let Some((job, theirs)) = self.jobs.remove(key).zip(self.keys.remove(&key.0)) else {
            return (None, Ok(()));
        };
        let removed = self.call("remove", |queue| {
            queue.remove(theirs).map(|job| job.stands_for())
        });
        let told = removed.and_then(|removed| match removed == Some(key) {
            true => Ok(()),
            false => Err(Breach("its `remove` did not return the job".to_owned())),
        });
        (Some(job), told)
    }

    pub(crate) fn displace(&mut self, by: &Job) -> Result<Option<Job>, Breach> {
        let displaced = self.call("displace", |queue| {
            queue.displace(by).map(|job| job.stands_for())
        })?;
        displaced.map(|key| self.claim(key)).transpose()
    }

    /// Returns all jobs, in the order of their arrival, and what remains without them.
    pub(crate) fn give_up(mut self) -> (JobList, Self) {
        (std::mem::take(&mut self.jobs), self)
    }

    /// Removes a job that the queue has returned.
    fn claim(&mut self, key: JobKey) -> Result<Job, Breach> {
        let job = self.keys.remove(&key.0).and_then(|_| self.jobs.remove(key));
        job.ok_or_else(|| {
            let why = "it returned a job that it does not have, or returned one twice";
            Breach(why.to_owned())
        })
    }

    /// Calls a method of the queue. A panic breaks the contract.
    fn call<R>(
        &mut self,
        method: &str,
        call: impl FnOnce(&mut dyn JobQueue) -> R,
    ) -> Result<R, Breach> {
        let queue = self.queue.as_deref_mut().expect("it is dropped last");
        contain(|| call(queue))
            .map_err(|panic| Breach(format!("its `{method}` panicked: {}", panic.message())))
    }
}

impl Drop for UsersQueue {
    fn drop(&mut self) {
        discard(self.queue.take());
    }
}

impl fmt::Debug for UsersQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsersQueue")
            .field("jobs", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
