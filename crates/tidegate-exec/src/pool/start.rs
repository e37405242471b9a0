//! How a pool gets its threads, and what happens when the system refuses one.

use std::sync::Arc;

use tidegate_sync::{Refusal, Rejected, Seat};

use super::job::Job;
use super::lanes::Lane;
use super::queue::JobKey;
use super::shared::{Shared, note_threads};
use super::worker;

/// What a thread is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The job that lies in its seat.
    OwnJob,
    /// Jobs that wait in the queue.
    Waiting,
    /// Nothing yet.
    Spare,
}

impl Shared {
    /// Starts a thread, which is counted already, with its first job.
    #[cold]
    pub(super) fn start(&self, job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        let seat = Arc::new(Seat::new());
        let given = seat.give(job);
        debug_assert!(given.is_ok(), "a new seat is empty");
        if self.start_thread(&seat, Purpose::OwnJob) {
            return Ok(None);
        }
        let Some(job) = seat.try_take() else {
            unreachable!("no thread was started that could have taken it");
        };
        self.offer_without_start(job, lane)
    }

    /// Starts a thread, which is counted already, for what waits.
    #[cold]
    pub(super) fn start_for_waiting(&self) {
        self.start_thread(&Arc::new(Seat::new()), Purpose::Waiting);
    }

    /// Starts a thread, which is counted already; false if none could be had, and the count is
    /// then taken back.
    pub(super) fn start_thread(&self, seat: &Arc<Seat<Job>>, purpose: Purpose) -> bool {
        if self.spawn(seat, purpose) {
            return true;
        }
        // Jobs may have relied on the thread. If it would have been the only one, they get one
        // more try; should that fail too, they wait for the next job that comes.
        let mut turn = self.desk.turn();
        if turn.threads() == 0 && turn.count_for_waiting() {
            drop(turn);
            self.spawn(&Arc::new(Seat::new()), Purpose::Waiting);
        }
        false
    }

    /// Starts a thread, or takes its count back.
    fn spawn(&self, seat: &Arc<Seat<Job>>, purpose: Purpose) -> bool {
        let member = self.clock.join();
        let (shared, mine) = (self.arc(), Arc::clone(seat));
        let started = self
            .threads
            .spawn(move || worker::run(&shared, &mine, member, purpose));
        let mut turn = self.desk.turn();
        if started.is_ok() {
            turn.counts.started_threads += 1;
            return true;
        }
        turn.counts.failed_starts += 1;
        let wake = turn.not_started(purpose == Purpose::Waiting);
        turn.counts.wakeups += u64::from(wake.is_some());
        let over = turn.is_closed() && turn.threads() == 0;
        self.end_turn(turn, || drop(wake));
        if over {
            self.end(Vec::new());
        }
        false
    }

    /// What is left to try when no thread could be started.
    fn offer_without_start(&self, job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        let mut turn = self.desk.turn();
        let handed = turn.hand_idle(job).or_else(|job| self.desk.claim(job));
        match handed {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Err(job) if turn.threads() > 0 && turn.has_room(lane) => {
                let key = turn.push(lane, job);
                self.end_turn(turn, || ());
                Ok(key)
            }
            Err(job) => {
                turn.counts.accepted -= 1;
                self.end_turn(turn, || ());
                Err(Rejected::new(job, Refusal::NoThread))
            }
        }
    }

    /// Starts threads for what waits, after the limits were raised.
    pub(super) fn start_for_all_waiting(&self) {
        loop {
            let mut turn = self.desk.turn();
            if !turn.count_for_waiting() {
                return;
            }
            note_threads(&mut turn);
            drop(turn);
            if !self.start_thread(&Arc::new(Seat::new()), Purpose::Waiting) {
                return;
            }
        }
    }
}
