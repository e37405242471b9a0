//! Gives a task to a thread that is already idle, or returns it. Nothing queues and nothing waits.

use std::sync::atomic::Ordering;

use tidegate_core::{RejectReason, Rejected, Task};

use crate::pool::queue::Job;

use super::lanes::Purpose;
use super::shared::Shared;
use super::start::add_worker;

/// Attempts to take the dispatcher's lock before `try_execute` gives up.
const TRIES: u32 = 32;

impl Shared {
    /// Gives a task to a thread that is already idle, or returns it. Never waits.
    pub(crate) fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        let mut job = Job::new(task);
        self.stamp(&mut job);
        if self.dispatcher.reserve().capacity() > 0 {
            match self.dispatcher.claim(job) {
                Ok(wake) => {
                    drop(wake);
                    self.tallies.reserve_hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(missed) => job = missed,
            }
            match self.try_idle(job) {
                Ok(()) => {
                    self.tallies.reserve_hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(missed) => job = missed,
            }
        }
        self.tallies.reserve_misses.fetch_add(1, Ordering::Relaxed);
        Err(Rejected::new(job.into_task(), RejectReason::Busy))
    }

    /// Gives the job to an idle thread that is not reserved, if the dispatcher's lock is free. If
    /// there is no such thread, starts one for the next call.
    fn try_idle(&self, job: Job) -> Result<(), Job> {
        let mut tries = (0..TRIES).map(|_| {
            std::hint::spin_loop();
            self.dispatcher.try_turn()
        });
        let Some(mut turn) = tries.find_map(|turn| turn) else {
            return Err(job);
        };
        if turn.is_closed() {
            return Err(job);
        }
        match turn.give_to_idle(job) {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(())
            }
            Err(job) => {
                let spare = turn.count_thread().then(|| add_worker(&mut turn));
                drop(turn);
                if let Some(post) = spare {
                    self.start_thread(&post, Purpose::Spare);
                }
                Err(job)
            }
        }
    }
}
