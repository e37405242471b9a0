//! Models of queued jobs whose idle worker is claimed or ends.

use std::sync::Arc as StdArc;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::internal::{Dispatch, SlotWait, WorkerSlot, WorkerStep, WorkerWanted};

use super::{Chair, Job, Pool, close, job, pool, seats};

/// The jobs of a rescue: each of them announces that it has begun and waits until all have.
struct Rescue {
    pool: StdArc<Pool>,
    meeting: Arc<(Mutex<u32>, Condvar)>,
    jobs: u32,
}

impl Rescue {
    fn new(pool: &StdArc<Pool>, jobs: u32) -> StdArc<Self> {
        StdArc::new(Self {
            pool: StdArc::clone(pool),
            meeting: Arc::new((Mutex::new(0), Condvar::new())),
            jobs,
        })
    }

    /// Acts as a worker thread that starts asleep in its slot, until it ends. With `expires` its
    /// idle time is over at once.
    fn sit(self: &StdArc<Self>, worker_slot: &Chair, expires: bool) {
        loop {
            let job = match worker_slot.sleep(&Clock::system(), None) {
                SlotWait::Given { job, asleep } => {
                    if asleep {
                        let sent = self.pool.turn().woken_worker_arrived();
                        self.carry_out(sent);
                    }
                    job
                }
                SlotWait::Woken => {
                    let again = self.pool.turn().recheck_idle(worker_slot, expires);
                    match again {
                        WorkerStep::Run(job) => job,
                        WorkerStep::Leave => return,
                        WorkerStep::Wait { .. } => continue,
                    }
                }
                SlotWait::Closed => unreachable!("no worker is dismissed"),
            };
            if self.run(job, worker_slot) {
                return;
            }
        }
    }

    /// Runs a job and the following ones. Returns `true` if the thread ends.
    fn run(&self, mut job: Job, worker_slot: &Chair) -> bool {
        loop {
            assert!(job.get() > 0);
            let mut here = self.meeting.0.lock().unwrap();
            *here += 1;
            self.meeting.1.notify_all();
            while *here < self.jobs {
                here = self.meeting.1.wait(here).unwrap();
            }
            drop(here);
            close(&self.pool);
            let next = self.pool.turn().next_step(worker_slot);
            match next {
                WorkerStep::Run(next) => job = next,
                WorkerStep::Leave => return true,
                WorkerStep::Wait { .. } => return false,
            }
        }
    }

    /// Carries out what was decided for the queued jobs.
    fn carry_out(self: &StdArc<Self>, sent: Option<WorkerWanted<Job>>) {
        if !matches!(sent, Some(WorkerWanted::Start)) {
            return drop(sent);
        }
        let this = StdArc::clone(self);
        let _started = thread::spawn(move || {
            let worker_slot: Chair = StdArc::new(WorkerSlot::new());
            let (next, sent) = this.pool.turn().started(&worker_slot);
            this.carry_out(sent);
            match next {
                WorkerStep::Run(job) => drop(this.run(job, &worker_slot)),
                WorkerStep::Leave => {}
                WorkerStep::Wait { .. } => unreachable!("a job waits for it"),
            }
        });
    }
}

/// Two workers sleep, one of them reserved. The first job wakes one. The second is queued for the
/// other, which is claimed for a third. All three jobs wait for each other.
#[test]
fn a_job_whose_idle_worker_is_claimed_is_rescued() {
    loom::model(|| {
        let pool = pool(3, 1);
        let rescue = Rescue::new(&pool, 3);
        let workers: Vec<_> = seats(&pool, 2)
            .into_iter()
            .map(|worker_slot| {
                let sat = pool.turn().next_step(&worker_slot);
                assert!(matches!(sat, WorkerStep::Wait { .. }));
                let rescue = StdArc::clone(&rescue);
                thread::spawn(move || rescue.sit(&worker_slot, false))
            })
            .collect();
        submit_or_start(&rescue, 1);
        submit_or_start(&rescue, 2);
        match pool.claim(job(3)) {
            Ok(wake) => drop(wake),
            Err(_) => submit_or_start(&rescue, 3),
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two workers sleep. The idle time of one is over while the other is woken for the first job. The
/// second job needs a thread, whichever worker is left.
#[test]
fn a_job_whose_idle_worker_leaves_is_rescued() {
    loom::model(|| {
        let pool = pool(2, 0);
        let rescue = Rescue::new(&pool, 2);
        let seats = seats(&pool, 2);
        let poke = StdArc::clone(&seats[0]);
        let workers: Vec<_> = seats
            .into_iter()
            .map(|worker_slot| {
                let sat = pool.turn().next_step(&worker_slot);
                assert!(matches!(sat, WorkerStep::Wait { .. }));
                let rescue = StdArc::clone(&rescue);
                let expires = StdArc::ptr_eq(&worker_slot, &poke);
                thread::spawn(move || rescue.sit(&worker_slot, expires))
            })
            .collect();
        poke.wake();
        submit_or_start(&rescue, 1);
        submit_or_start(&rescue, 2);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Submits a job, and starts a thread for it if the dispatcher decides so.
fn submit_or_start(rescue: &StdArc<Rescue>, number: u32) {
    let mut turn = rescue.pool.turn();
    match turn.place(job(number), true, false) {
        Dispatch::Handed(wake) => {
            drop(turn);
            drop(wake);
        }
        Dispatch::Queue(job) => turn.jobs.push_back((number, job)),
        Dispatch::Start(job) => {
            drop(turn);
            let this = StdArc::clone(rescue);
            let _started = thread::spawn(move || {
                let worker_slot: Chair = StdArc::new(WorkerSlot::new());
                this.run(job, &worker_slot)
            });
        }
        Dispatch::Full(_) => unreachable!("there is room"),
    }
}
