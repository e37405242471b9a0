//! All operations at once, with a shutdown at a random moment: nothing is lost, nothing runs twice.
//!
//! CI runs a few seeds; with `TIDEGATE_LONG=1` there are 200 seeds of 10 million operations. Half
//! of the seeds run on a manual clock that the threads advance, so that the shutdown deadline can
//! pass at any point. The other half run on the system clock, where event loops also spin.
//!
//! Memory: one byte per operation, plus the outstanding work. `TIDEGATE_SEED=n` runs one seed.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, Quiet};
use tidegate_promise::Completion;
use tidegate_testkit::{Rng, model, short_or_long};

use crate::SECOND;

const THREADS: usize = 8;
/// A flag in a ledger entry, beside the number of runs: the submission was refused.
const REFUSED: u8 = 0x80;
/// The completion succeeded.
const SUCCEEDED: u8 = 0x40;
/// The completion was cancelled or failed.
const ENDED: u8 = 0x20;
/// The submission is a future, which can be cancelled during its last poll.
const FUTURE: u8 = 0x10;
/// The number of runs.
const RUNS: u8 = 0x0f;
/// The number of open completions at which a worker checks which of them have ended.
const OPEN: usize = 1024;

/// Returns the number of seeds, and the number of operations of each.
fn size() -> (u64, usize) {
    short_or_long((8, 500_000), (200, 10_000_000))
}

/// The outcome of each numbered submission.
#[derive(Clone)]
struct Ledger {
    entries: Arc<Vec<AtomicU8>>,
}

impl Ledger {
    fn new(len: usize) -> Self {
        let entries = (0..len).map(|_| AtomicU8::new(0)).collect();
        Self {
            entries: Arc::new(entries),
        }
    }

    fn ran(&self, number: usize) {
        self.entries[number].fetch_add(1, Ordering::Relaxed);
    }

    fn mark(&self, number: usize, what: u8) {
        self.entries[number].fetch_or(what, Ordering::Relaxed);
    }

    /// Asserts that every submission ran once, was refused, or ended as its completion says.
    fn check(&self) {
        for (number, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(Ordering::Relaxed);
            let right = match (entry & !(RUNS | FUTURE), entry & RUNS) {
                (0 | SUCCEEDED, runs) => runs == 1,
                (REFUSED, runs) => runs == 0,
                (ENDED, runs) => runs == 0 || runs == 1 && entry & FUTURE != 0,
                _ => false,
            };
            assert!(right, "{number}: {entry:#x}");
        }
    }
}

/// One of the submitting threads.
struct Worker {
    home: EventLoop,
    clock: Option<ManualClock>,
    ledger: Ledger,
    rng: Rng,
    /// The completions that have not ended, by number.
    promised: Vec<(usize, Completion<()>)>,
    /// The number of open completions at which the worker checks them again.
    look_at: usize,
}

impl Worker {
    fn operate(&mut self, number: usize) {
        let (home, ledger) = (self.home.clone(), self.ledger.clone());
        match self.rng.below(1000) {
            0..450 => self.silently(number, |run| home.execute(run).is_ok()),
            450..600 => {
                let submitted = home.submit(move || ledger.ran(number)).ok();
                self.promise(number, submitted, 300);
            }
            600..720 => {
                let delay = Duration::from_nanos(self.rng.below(100_000));
                let scheduled = home.schedule(delay, move || ledger.ran(number)).ok();
                self.promise(number, scheduled, 300);
            }
            720..740 => {
                let far = home
                    .schedule(Duration::MAX, move || ledger.ran(number))
                    .ok();
                self.promise(number, far, 500);
            }
            740..800 => {
                let mut polls = self.rng.below(3);
                let spawned = home.spawn(poll_fn(move |cx| {
                    if polls == 0 {
                        ledger.ran(number);
                        return Poll::Ready(());
                    }
                    polls -= 1;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }));
                self.ledger.mark(number, FUTURE);
                self.promise(number, spawned.ok(), 300);
            }
            800..990 => self.nested(number),
            990..995 => {
                home.try_suspend();
                ledger.mark(number, REFUSED);
            }
            _ => {
                if let Some(clock) = &self.clock {
                    clock.jump(Duration::from_micros(self.rng.below(20)));
                }
                ledger.mark(number, REFUSED);
            }
        }
    }

    fn silently(&mut self, number: usize, submit: impl FnOnce(Box<dyn FnOnce() + Send>) -> bool) {
        let ledger = self.ledger.clone();
        if !submit(Box::new(move || ledger.ran(number))) {
            self.ledger.mark(number, REFUSED);
        }
    }

    /// Submits a task that submits another one. Only the run of the inner task is counted.
    fn nested(&mut self, number: usize) {
        let (ledger, inner) = (self.ledger.clone(), self.home.clone());
        let outer = self.home.execute(move || {
            let ran = ledger.clone();
            if inner.execute(move || ran.ran(number)).is_err() {
                ledger.mark(number, REFUSED);
            }
        });
        if outer.is_err() {
            self.ledger.mark(number, REFUSED);
        }
    }

    fn promise(&mut self, number: usize, answer: Option<Completion<()>>, cancels: u64) {
        let Some(answer) = answer else {
            self.ledger.mark(number, REFUSED);
            return;
        };
        if self.rng.below(1000) < cancels {
            answer.cancel();
        }
        self.promised.push((number, answer));
        if self.promised.len() >= self.look_at {
            self.look();
            self.look_at = OPEN.max(2 * self.promised.len());
        }
    }

    /// Records the outcomes of completions that have ended, and keeps the others.
    fn look(&mut self) {
        let ledger = &self.ledger;
        self.promised.retain_mut(|(number, answer)| {
            let Some(outcome) = answer.take() else {
                return true;
            };
            let how = if outcome.is_success() {
                SUCCEEDED
            } else {
                ENDED
            };
            ledger.mark(*number, how);
            false
        });
    }
}

fn run_all(rng: &mut Rng, operations: usize) {
    let clock = rng.chance(0.5).then(ManualClock::new);
    let mut builder = EventLoop::builder("stress").bound(1 << rng.below(17));
    if let Some(clock) = &clock {
        builder = builder.clock(clock);
    }
    let home = builder.build().unwrap();
    let each = operations / THREADS;
    let ledger = Ledger::new(each * THREADS);
    // The operation, counted over all threads, at which the shutdown is requested. In one of ten
    // seeds it comes before the first operation.
    let ends_at = if rng.chance(0.1) {
        0
    } else {
        rng.below(operations as u64)
    };
    let (done, timeout) = (AtomicU64::new(0), Duration::from_micros(rng.below(200)));
    let workers = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut worker = Worker {
                    home: home.clone(),
                    clock: clock.clone(),
                    ledger: ledger.clone(),
                    rng: rng.fork(),
                    promised: Vec::new(),
                    look_at: OPEN,
                };
                let done = &done;
                scope.spawn(move || {
                    for number in thread * each..(thread + 1) * each {
                        if done.fetch_add(1, Ordering::Relaxed) == ends_at {
                            shut_down(&worker, timeout);
                        }
                        worker.operate(number);
                    }
                    worker
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect::<Vec<_>>()
    });
    if let Some(clock) = &clock {
        clock.jump(Duration::from_millis(1));
    }
    let report = home.termination().wait().unwrap();
    assert!(home.is_terminated());
    for task in report.handed_back.take() {
        task.run();
    }
    for mut worker in workers {
        worker.look();
        assert!(worker.promised.is_empty(), "{:?}", worker.promised);
    }
    ledger.check();
}

/// Requests the shutdown: on a manual clock with a deadline that can pass at any point, on the
/// system clock with a deadline that is never reached, so that real time decides nothing.
fn shut_down(worker: &Worker, timeout: Duration) {
    let quiet = match &worker.clock {
        Some(_) => Quiet {
            period: timeout / 4,
            timeout,
        },
        None => Quiet::none(SECOND * 3600),
    };
    drop(worker.home.shutdown(quiet));
}

#[test]
fn nothing_is_lost_and_nothing_runs_twice() {
    let (seeds, operations) = size();
    model(0..seeds, |rng| run_all(rng, operations));
}

#[test]
fn many_short_lives_lose_nothing() {
    let (seeds, operations) = size();
    model(1000..1000 + seeds * 25, |rng| {
        run_all(rng, operations / 500)
    });
}

#[test]
fn loops_that_come_and_go_lose_no_wakeup() {
    let (seeds, operations) = size();
    model(2000..2000 + seeds, |rng| {
        let home = EventLoop::builder("stress").build().unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (home, mut rng) = (home.clone(), rng.fork());
                scope.spawn(move || {
                    for number in 0..operations / 250 {
                        if rng.chance(0.5) {
                            home.try_suspend();
                        }
                        let answer = home.submit(move || number).unwrap();
                        assert_eq!(answer.wait().unwrap(), number);
                    }
                });
            }
        });
    });
}
