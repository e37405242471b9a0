//! Models of a worker pool's words: seat, reserve and desk (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most three jobs, at most `LOOM_MAX_PREEMPTIONS` preemptions
//! per execution. A lost wakeup is a deadlock, which loom reports; a job that two threads see is
//! two accesses of one cell without an order, which it reports too.
//!
//! # Do they bite?
//!
//! Each of these changes, made by hand, fails the model named after it:
//!
//! | changed | fails |
//! |---|---|
//! | `Seat::give`: the last store relaxed; answers that nobody sleeps; `try_take_with`: exchange relaxed | `a_job_is_never_slept_over` |
//! | `Seat::sleep`: stores `ASLEEP` without a look whether a job came | the program, at once |
//! | `Seat::try_take_with`: store relaxed | `a_seat_is_filled_again_only_when_it_is_empty`, `a_seat_that_is_closed_leaves_its_job_to_one_side` |
//! | `Seat::try_take_with`: takes by load and store; `Seat::close`: relaxed | `a_seat_that_is_closed_leaves_its_job_to_one_side` |
//! | `Reserve::claim`: load and store instead of the swap; swap relaxed | `a_claim_beside_a_submission_strands_nothing` |
//! | `Turn::next`: sits down though jobs wait; `Turn::place`: queues though somebody is in reserve | `no_job_is_queued_while_a_worker_sleeps` |
//! | `Turn::arrived`: does not send the next one | `who_was_woken_sends_the_next_one` |
//! | `Turn::make_up`: sends nobody; `Turn::next`: takes the debt away though jobs wait | `a_wakeup_that_is_put_off_is_not_forgotten` |
//! | `Turn::again`: leaves though its seat was claimed | `a_worker_that_leaves_takes_no_job_with_it` |
//! | `Turn::relieve`: starts no thread | `a_job_whose_idle_worker_is_claimed_is_rescued` |
//! | the same, and `Turn::again`: leaves though jobs wait | `a_job_whose_idle_worker_leaves_is_rescued` |
#![cfg(tidegate_loom)]

use std::collections::VecDeque;
use std::sync::Arc as StdArc;

use loom::cell::Cell;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::Growth;
use tidegate_pool::internal::{Desk, DeskLimits, Next, Placed, Reserve, Seat, Sent, Slept, Work};

/// A job whose cell loom watches, and whose loss it reports.
type Job = Arc<Cell<u32>>;

fn job(number: u32) -> Job {
    Arc::new(Cell::new(number))
}

/// Jobs with keys: what a queue with handles comes to.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u32, Job)>,
}

impl Work<Job> for Queue {
    fn take(&mut self) -> Option<Job> {
        self.jobs.pop_front().map(|(_, job)| job)
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

type Pool = Desk<Job, Queue>;
type Chair = StdArc<Seat<Job>>;

fn pool(max: usize, reserved: usize) -> StdArc<Pool> {
    let limits = DeskLimits {
        core: 0,
        max,
        leased: 0,
        growth: Growth::ThreadsFirst,
    };
    StdArc::new(Desk::new(Queue::default(), limits, reserved))
}

/// Counts the threads before anybody comes, so that nothing has to be started.
fn seats(pool: &Pool, count: usize) -> Vec<Chair> {
    let mut turn = pool.turn();
    (0..count)
        .map(|_| {
            assert!(turn.count_thread());
            StdArc::new(Seat::new())
        })
        .collect()
}

/// Gives the pool a job: handed over or queued, as the desk says.
fn submit(pool: &Pool, number: u32) {
    let mut turn = pool.turn();
    match turn.place(job(number), true, false) {
        Placed::Handed(wake) => {
            drop(turn);
            drop(wake);
        }
        Placed::Queue(job) => turn.jobs.push_back((number, job)),
        Placed::Start(_) | Placed::Full(_) => unreachable!("every thread is there"),
    }
}

/// Two jobs, the first by a submitter that puts its wakeup off if there is somebody to wait for,
/// the second by another one that comes in between.
fn submit_patiently(pool: &Pool, numbers: [u32; 2]) {
    let mut turn = pool.turn();
    let Some(looks) = turn.may_put_off() else {
        drop(turn);
        return numbers.into_iter().for_each(|number| submit(pool, number));
    };
    turn.jobs.push_back((numbers[0], job(numbers[0])));
    turn.put_off();
    drop(turn);
    submit(pool, numbers[1]);
    for _ in 0..looks {
        thread::yield_now();
        if !pool.is_put_off() {
            return;
        }
    }
    let wake = pool.turn().make_up();
    drop(wake);
}

fn close(pool: &Pool) {
    let wakes = pool.turn().close();
    drop(wakes);
}

/// What a thread of a pool does, without a clock. Answers the sum of what it ran.
fn work(pool: &Pool, seat: &Chair) -> u32 {
    let mut sum = 0;
    while let Some(job) = next(pool, seat) {
        sum += job.get();
        job.set(0);
    }
    sum
}

fn next(pool: &Pool, seat: &Chair) -> Option<Job> {
    let next = pool.turn().next(seat);
    match next {
        Next::Run(job) => return Some(job),
        Next::Leave => return None,
        Next::Wait { .. } => {}
    }
    loop {
        match seat.sleep(&Clock::system(), None) {
            Slept::Given { job, asleep } => {
                if asleep {
                    let sent = pool.turn().arrived();
                    assert!(!matches!(sent, Some(Sent::Start)), "every thread is there");
                    drop(sent);
                }
                return Some(job);
            }
            Slept::Woken => {
                let again = pool.turn().again(seat, false);
                match again {
                    Next::Run(job) => return Some(job),
                    Next::Leave => return None,
                    Next::Wait { .. } => {}
                }
            }
            Slept::Closed => unreachable!("nobody is dismissed"),
        }
    }
}

/// One giver, one sleeper.
#[test]
fn a_job_is_never_slept_over() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || {
                if seat.give(job(7)).expect("it is empty") {
                    seat.wake();
                }
            })
        };
        let Slept::Given { job, .. } = seat.sleep(&Clock::system(), None) else {
            unreachable!("nobody pokes");
        };
        assert_eq!(job.get(), 7);
        giver.join().unwrap();
    });
}

/// A giver, a poker, a sleeper: the job is taken once, whoever woke the worker.
#[test]
fn a_poke_beside_a_job_loses_nothing() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let others: Vec<_> = [true, false]
            .map(|gives| {
                let seat = StdArc::clone(&seat);
                thread::spawn(move || {
                    if !gives || seat.give(job(7)).expect("it is empty") {
                        seat.wake();
                    }
                })
            })
            .into();
        let mut taken = 0;
        while taken == 0 {
            if let Slept::Given { job, .. } = seat.sleep(&Clock::system(), None) {
                taken += job.get();
            }
        }
        for other in others {
            other.join().unwrap();
        }
        assert!(seat.try_take().is_none());
    });
}

/// A giver, a worker that falls asleep, and one that closes the seat: the job is refused, run or
/// left, and whoever closes knows which.
#[test]
fn a_seat_that_is_closed_leaves_its_job_to_one_side() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let begun = StdArc::new(AtomicUsize::new(0));
        let worker = {
            let (seat, begun) = (StdArc::clone(&seat), StdArc::clone(&begun));
            thread::spawn(move || {
                let begin = |_: &Job| begun.store(1, Relaxed);
                match seat.sleep_with(&Clock::system(), None, begin) {
                    Slept::Given { job, .. } => job.get() == 7,
                    Slept::Closed => false,
                    Slept::Woken => unreachable!("it is closed before it is woken"),
                }
            })
        };
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || match seat.give(job(7)) {
                Ok(asleep) => {
                    if asleep {
                        seat.wake();
                    }
                    true
                }
                Err(_) => false,
            })
        };
        let left = seat.close();
        let has_begun = begun.load(Relaxed) == 1;
        seat.wake();
        let (ran, given) = (worker.join().unwrap(), giver.join().unwrap());
        assert!(left.is_none_or(|job| job.get() == 7 && !ran));
        assert_eq!(ran, has_begun);
        assert!(given || !ran);
    });
}

/// One that fills the seat twice, one that empties it: the second job never meets the first.
#[test]
fn a_seat_is_filled_again_only_when_it_is_empty() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || {
                for number in 1..=2 {
                    let mut next = job(number);
                    while let Err(back) = seat.give(next) {
                        next = back;
                        thread::yield_now();
                    }
                }
            })
        };
        let mut taken = Vec::new();
        while taken.len() < 2 {
            match seat.try_take() {
                Some(job) => taken.push(job.get()),
                None => thread::yield_now(),
            }
        }
        giver.join().unwrap();
        assert_eq!(taken, [1, 2]);
    });
}

/// Two that claim and the worker itself, which wants to leave: one of them gets the seat.
#[test]
fn a_reserved_worker_is_claimed_once() {
    loom::model(|| {
        let reserve: StdArc<Reserve<Job>> = StdArc::new(Reserve::new(2));
        let seat: Chair = StdArc::new(Seat::new());
        assert!(reserve.put(&seat));
        let got = StdArc::new(AtomicUsize::new(0));
        let claimers: Vec<_> = (0..2)
            .map(|_| {
                let (reserve, got) = (StdArc::clone(&reserve), StdArc::clone(&got));
                thread::spawn(move || {
                    if let Some(seat) = reserve.claim() {
                        got.fetch_add(1, Relaxed);
                        seat.give(job(1)).map(drop).expect("alone with it");
                    }
                })
            })
            .collect();
        let left = reserve.withdraw(&seat);
        for claimer in claimers {
            claimer.join().unwrap();
        }
        assert_eq!(got.load(Relaxed) + usize::from(left), 1);
        assert_eq!(seat.try_take().is_some(), !left);
        assert_eq!((reserve.available(), StdArc::strong_count(&seat)), (0, 1));
    });
}

/// A worker sits down in the reserve again and again while somebody claims it.
#[test]
fn a_claim_sees_what_the_worker_did_before_it_sat_down() {
    loom::model(|| {
        let reserve: StdArc<Reserve<Job>> = StdArc::new(Reserve::new(1));
        let seat: Chair = StdArc::new(Seat::new());
        let claimer = {
            let reserve = StdArc::clone(&reserve);
            thread::spawn(move || {
                let Some(seat) = reserve.claim() else {
                    return false;
                };
                if seat.give(job(1)).expect("alone with it") {
                    seat.wake();
                }
                true
            })
        };
        assert!(reserve.put(&seat));
        let given = claimer.join().unwrap();
        assert_eq!(seat.try_take().is_some(), given);
        assert_eq!(reserve.withdraw(&seat), !given);
    });
}

/// One worker, two submitters. Fails when a job is queued while the worker falls asleep.
#[test]
fn no_job_is_queued_while_a_worker_sleeps() {
    for reserved in [0, 1] {
        loom::model(move || {
            let pool = pool(1, reserved);
            let seat = seats(&pool, 1).remove(0);
            let submitter = {
                let pool = StdArc::clone(&pool);
                thread::spawn(move || submit(&pool, 1))
            };
            let worker = {
                let pool = StdArc::clone(&pool);
                thread::spawn(move || work(&pool, &seat))
            };
            submit(&pool, 2);
            submitter.join().unwrap();
            close(&pool);
            assert_eq!(worker.join().unwrap(), 3);
            assert_eq!(pool.tally().threads, 0);
        });
    }
}

/// Two workers, two jobs that wait for each other: the one that was queued behind a worker on its
/// way needs the other worker, or both wait for ever.
#[test]
fn who_was_woken_sends_the_next_one() {
    for reserved in [0, 1] {
        loom::model(move || {
            let pool = pool(2, reserved);
            let meeting = Arc::new((Mutex::new(0), Condvar::new()));
            let workers: Vec<_> = seats(&pool, 2)
                .into_iter()
                .map(|seat| {
                    let (pool, meeting) = (StdArc::clone(&pool), Arc::clone(&meeting));
                    thread::spawn(move || {
                        while let Some(job) = next(&pool, &seat) {
                            assert!(job.get() > 0);
                            meet(&meeting);
                            close(&pool);
                        }
                    })
                })
                .collect();
            submit(&pool, 1);
            submit(&pool, 2);
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}

/// A worker that is busy for ever, one that is busy for a moment, one that sleeps, or any of them:
/// whoever puts a wakeup off makes up for it, so that the two jobs meet.
#[test]
fn a_wakeup_that_is_put_off_is_not_forgotten() {
    loom::model(|| {
        let pool = pool(2, 0);
        let meeting = Arc::new((Mutex::new(0), Condvar::new()));
        let workers: Vec<_> = seats(&pool, 2)
            .into_iter()
            .map(|seat| {
                let (pool, meeting) = (StdArc::clone(&pool), Arc::clone(&meeting));
                thread::spawn(move || {
                    while let Some(job) = next(&pool, &seat) {
                        assert!(job.get() > 0);
                        meet(&meeting);
                        close(&pool);
                    }
                })
            })
            .collect();
        submit_patiently(&pool, [1, 2]);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Waits until two are there.
fn meet(meeting: &(Mutex<u32>, Condvar)) {
    let mut here = meeting.0.lock().unwrap();
    *here += 1;
    meeting.1.notify_all();
    while *here < 2 {
        here = meeting.1.wait(here).unwrap();
    }
}

/// A claim without the lock, a submission with it, one worker: both jobs run.
#[test]
fn a_claim_beside_a_submission_strands_nothing() {
    loom::model(|| {
        let pool = pool(1, 1);
        let seat = seats(&pool, 1).remove(0);
        let claimer = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || match pool.claim(job(4)) {
                Ok(wake) => {
                    drop(wake);
                    4
                }
                Err(back) => {
                    assert_eq!(back.get(), 4);
                    0
                }
            })
        };
        let worker = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || work(&pool, &seat))
        };
        submit(&pool, 1);
        let claimed = claimer.join().unwrap();
        close(&pool);
        assert_eq!(worker.join().unwrap(), 1 + claimed);
    });
}

/// A worker whose time is up against a submission and a claim: either it leaves and has got
/// nothing, or it runs what it was given.
#[test]
fn a_worker_that_leaves_takes_no_job_with_it() {
    loom::model(|| {
        let pool = pool(1, 1);
        let seat = seats(&pool, 1).remove(0);
        let sat = pool.turn().next(&seat);
        assert!(matches!(sat, Next::Wait { .. }));
        let giver = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || match pool.claim(job(1)) {
                Ok(wake) => {
                    drop(wake);
                    true
                }
                Err(_) => false,
            })
        };
        let again = pool.turn().again(&seat, true);
        let ran = match again {
            Next::Leave => false,
            _ => matches!(seat.sleep(&Clock::system(), None), Slept::Given { .. }),
        };
        assert_eq!(giver.join().unwrap(), ran);
        assert!(seat.try_take().is_none());
    });
}

/// A handle against the worker, for one queued job: exactly one of them has it.
#[test]
fn a_removal_against_a_take_has_one_winner() {
    loom::model(|| {
        let pool = pool(1, 0);
        let seat = seats(&pool, 1).remove(0);
        pool.turn().jobs.push_back((9, job(9)));
        let removed = Arc::new(Mutex::new(None));
        let remover = {
            let (pool, removed) = (StdArc::clone(&pool), Arc::clone(&removed));
            thread::spawn(move || {
                let mut turn = pool.turn();
                let at = turn.jobs.iter().position(|(key, _)| *key == 9);
                let job = at.and_then(|at| turn.jobs.remove(at));
                drop(turn);
                *removed.lock().unwrap() = job;
            })
        };
        let closer = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || close(&pool))
        };
        let ran = work(&pool, &seat);
        remover.join().unwrap();
        closer.join().unwrap();
        let removed = removed.lock().unwrap().take();
        assert_eq!(ran == 9, removed.is_none());
        assert_eq!(removed.map_or(9, |(_, job)| job.get()), 9);
    });
}

/// The jobs of a rescue: each says that it has begun and waits until all have.
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

    /// What a thread of the pool does until it leaves, if it begins to sleep in its seat. `expires`
    /// lets its time be up at once.
    fn sit(self: &StdArc<Self>, seat: &Chair, expires: bool) {
        loop {
            let job = match seat.sleep(&Clock::system(), None) {
                Slept::Given { job, asleep } => {
                    if asleep {
                        let sent = self.pool.turn().arrived();
                        self.follow(sent);
                    }
                    job
                }
                Slept::Woken => {
                    let again = self.pool.turn().again(seat, expires);
                    match again {
                        Next::Run(job) => job,
                        Next::Leave => return,
                        Next::Wait { .. } => continue,
                    }
                }
                Slept::Closed => unreachable!("nobody is dismissed"),
            };
            if self.run(job, seat) {
                return;
            }
        }
    }

    /// Runs a job and what comes after it; true if the thread leaves.
    fn run(&self, mut job: Job, seat: &Chair) -> bool {
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
            let next = self.pool.turn().next(seat);
            match next {
                Next::Run(next) => job = next,
                Next::Leave => return true,
                Next::Wait { .. } => return false,
            }
        }
    }

    /// Does what was decided for what waits.
    fn follow(self: &StdArc<Self>, sent: Option<Sent<Job>>) {
        if !matches!(sent, Some(Sent::Start)) {
            return drop(sent);
        }
        let this = StdArc::clone(self);
        let _started = thread::spawn(move || {
            let seat: Chair = StdArc::new(Seat::new());
            let (next, sent) = this.pool.turn().started(&seat);
            this.follow(sent);
            match next {
                Next::Run(job) => drop(this.run(job, &seat)),
                Next::Leave => {}
                Next::Wait { .. } => unreachable!("a job waits for it"),
            }
        });
    }
}

/// Two workers sleep, one of them in reserve. The first job wakes one; the second is queued for
/// the other, which is claimed for a third. All three wait for each other.
#[test]
fn a_job_whose_idle_worker_is_claimed_is_rescued() {
    loom::model(|| {
        let pool = pool(3, 1);
        let rescue = Rescue::new(&pool, 3);
        let workers: Vec<_> = seats(&pool, 2)
            .into_iter()
            .map(|seat| {
                let sat = pool.turn().next(&seat);
                assert!(matches!(sat, Next::Wait { .. }));
                let rescue = StdArc::clone(&rescue);
                thread::spawn(move || rescue.sit(&seat, false))
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

/// Two workers sleep; the time of one is up while the other is woken for the first job. The second
/// job needs a thread, whichever worker is left.
#[test]
fn a_job_whose_idle_worker_leaves_is_rescued() {
    loom::model(|| {
        let pool = pool(2, 0);
        let rescue = Rescue::new(&pool, 2);
        let seats = seats(&pool, 2);
        let poke = StdArc::clone(&seats[0]);
        let workers: Vec<_> = seats
            .into_iter()
            .map(|seat| {
                let sat = pool.turn().next(&seat);
                assert!(matches!(sat, Next::Wait { .. }));
                let rescue = StdArc::clone(&rescue);
                let expires = StdArc::ptr_eq(&seat, &poke);
                thread::spawn(move || rescue.sit(&seat, expires))
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

/// Gives the pool a job, and starts a thread for it if the desk says so.
fn submit_or_start(rescue: &StdArc<Rescue>, number: u32) {
    let mut turn = rescue.pool.turn();
    match turn.place(job(number), true, false) {
        Placed::Handed(wake) => {
            drop(turn);
            drop(wake);
        }
        Placed::Queue(job) => turn.jobs.push_back((number, job)),
        Placed::Start(job) => {
            drop(turn);
            let this = StdArc::clone(rescue);
            let _started = thread::spawn(move || {
                let seat: Chair = StdArc::new(Seat::new());
                this.run(job, &seat)
            });
        }
        Placed::Full(_) => unreachable!("there is room"),
    }
}
