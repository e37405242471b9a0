//! Random operations on all parts of a pool: each accepted job runs exactly once or is handed back.
//!
//! CI runs a few seeds; with `TIDEGATE_LONG=1` there are 200. Half of the seeds run on a manual
//! clock that the threads advance, so that keep-alive and deadline expire at any point. The other
//! half run on the system clock, where workers also spin before they sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::{ManualClock, Task};
use tidegate_pool::{Growth, JobHandle, PoolLimits, PoolPolicy, WorkerPool};
use tidegate_promise::{Completion, Outcome};
use tidegate_testkit::{Counter, Gate, Rng, model, short_or_long, until};

use crate::SECOND;

const THREADS: usize = 4;
const RAN: u8 = 1;
/// Refused, removed, displaced or cancelled: the job must not have run.
const BACK: u8 = 0x80;

fn size() -> (u64, usize) {
    short_or_long((8, 8_000), (200, 200_000))
}

/// How often each numbered job ran, and whether it was returned.
#[derive(Clone)]
struct Ledger(Arc<Vec<AtomicU8>>);

impl Ledger {
    fn ran(&self, number: usize) {
        self.0[number].fetch_add(RAN, Ordering::Relaxed);
    }

    fn back(&self, number: usize) {
        self.0[number].fetch_add(BACK, Ordering::Relaxed);
    }

    fn task(&self, number: usize) -> Task {
        let ledger = self.clone();
        Task::new(move || ledger.ran(number))
    }
}

struct Submitter {
    pool: WorkerPool,
    clock: Option<ManualClock>,
    ledger: Ledger,
    rng: Rng,
    handles: Vec<(usize, JobHandle)>,
    answers: Vec<(usize, Completion<()>)>,
}

impl Submitter {
    fn operate(&mut self, number: usize) {
        let (pool, ledger) = (self.pool.clone(), self.ledger.clone());
        match self.rng.below(100) {
            0..40 => self.note(number, pool.execute_task(ledger.task(number)).is_ok()),
            40..50 => self.note(number, pool.try_execute(ledger.task(number)).is_ok()),
            50..55 => self.note(number, pool.execute_internal(ledger.task(number)).is_ok()),
            55..75 => match pool.submit(move || ledger.ran(number)) {
                Ok(answer) => {
                    if self.rng.chance(0.3) {
                        answer.cancel();
                    }
                    self.answers.push((number, answer));
                }
                Err(_) => self.ledger.back(number),
            },
            75..90 => match pool.enqueue(ledger.task(number)) {
                Ok(handle) => self.handles.push((number, handle)),
                Err(_) => self.ledger.back(number),
            },
            90..96 => {
                self.take_one_back();
                self.ledger.back(number);
            }
            96..98 => {
                self.resize();
                self.ledger.back(number);
            }
            _ => {
                if let Some(clock) = &self.clock {
                    clock.jump(Duration::from_micros(self.rng.below(1500)));
                }
                self.ledger.back(number);
            }
        }
    }

    /// Returns no timeout, a short one, or a long one.
    fn timeout(&mut self) -> Duration {
        match self.rng.below(3) {
            0 => Duration::ZERO,
            1 => Duration::from_micros(self.rng.below(500)),
            _ => SECOND,
        }
    }

    fn note(&self, number: usize, accepted: bool) {
        if !accepted {
            self.ledger.back(number);
        }
    }

    fn take_one_back(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let at = self.rng.index(self.handles.len());
        let (number, handle) = self.handles.swap_remove(at);
        if handle.remove().is_some() {
            self.ledger.back(number);
        }
    }

    fn resize(&mut self) {
        let max = 1 + self.rng.index(8);
        let limits = PoolLimits {
            core: self.rng.index(max + 1),
            max,
            queue: self.rng.index(64),
            reserved: self.rng.index(max + 1),
            keep_alive: Duration::from_micros(self.rng.below(3000)),
            growth: match self.rng.chance(0.5) {
                true => Growth::QueueFirst,
                false => Growth::ThreadsFirst,
            },
            low: 1,
        };
        // Refused only after the pool was stopped.
        let _ = self.pool.resize(limits);
    }
}

fn run(rng: &mut Rng, operations: usize) {
    let clock = rng.chance(0.5).then(ManualClock::new);
    let builder = WorkerPool::builder("workers").core(1).max(4).queue(32);
    let builder = builder.policy(match rng.below(3) {
        0 => PoolPolicy::Fail,
        1 => PoolPolicy::CallerRuns,
        _ => PoolPolicy::Backoff {
            attempts: 1,
            pause: Duration::ZERO,
        },
    });
    let builder = match &clock {
        Some(clock) => builder.clock(clock),
        None => builder,
    };
    let pool = builder.build().unwrap();
    let ledger = Ledger(Arc::new(
        (0..operations).map(|_| AtomicU8::new(0)).collect(),
    ));
    let each = operations / THREADS;
    let stop_at = each / 2 + rng.index(each);
    let submitters: Vec<_> = (0..THREADS)
        .map(|_| Submitter {
            pool: pool.clone(),
            clock: clock.clone(),
            ledger: ledger.clone(),
            rng: rng.fork(),
            handles: Vec::new(),
            answers: Vec::new(),
        })
        .collect();
    let answers = thread::scope(|scope| {
        let threads: Vec<_> = submitters
            .into_iter()
            .enumerate()
            .map(|(at, mut submitter)| {
                scope.spawn(move || {
                    for step in 0..each {
                        if at < 2 && step == stop_at {
                            let timeout = submitter.timeout();
                            submitter.pool.shutdown(timeout);
                        }
                        submitter.operate(at * each + step);
                    }
                    submitter.answers
                })
            })
            .collect();
        let threads = threads.into_iter();
        let answers: Vec<_> = threads.flat_map(|one| one.join().unwrap()).collect();
        answers
    });
    let back = finish(&pool, clock.as_ref());
    let metrics = pool.metrics();
    assert_eq!(
        metrics.accepted + metrics.reserve_hits,
        metrics.done + metrics.removed + metrics.displaced + back,
        "{metrics:?}"
    );
    assert_eq!(metrics.started_threads, metrics.ended_threads);
    for (number, answer) in answers {
        let ran = ledger.0[number].load(Ordering::Relaxed);
        match answer.peek() {
            Some(Outcome::Success(())) => assert_eq!(ran, RAN, "{number} answered"),
            Some(Outcome::Cancelled) => assert_eq!(ran, 0, "{number} was cancelled"),
            other => panic!("{number}: {other:?}"),
        }
        ledger.0[number].store(RAN, Ordering::Relaxed);
    }
    for (number, entry) in ledger.0.iter().enumerate() {
        let entry = entry.load(Ordering::Relaxed);
        assert!(entry == RAN || entry == BACK, "job {number}: {entry:#x}");
    }
}

/// Stops the pool, advances a manual clock over the deadline, and runs the jobs that are handed
/// back. Returns their number.
fn finish(pool: &WorkerPool, clock: Option<&ManualClock>) -> u64 {
    let stopped = pool.shutdown(SECOND);
    until("the pool has stopped", || {
        let done = stopped.is_done();
        if let Some(clock) = clock.filter(|_| !done) {
            clock.jump(SECOND / 4);
        }
        done
    });
    let report = stopped.wait().unwrap();
    until("the pool has no thread", || pool.metrics().threads == 0);
    let tasks = report.handed_back.take();
    let back = tasks.len() as u64;
    tasks.into_iter().for_each(Task::run);
    back
}

#[test]
fn every_accepted_job_runs_once_or_comes_back() {
    let (seeds, operations) = size();
    model(1..=seeds, |rng| run(rng, operations));
}

/// One submission of a round.
#[derive(Clone, Copy)]
enum Step {
    Block,
    BlockIfIdle,
    Quick,
    QuickInternal,
    PassTime,
}

/// Some threads are blocked, but not all: all other jobs run, whatever happens in between.
fn run_beside_held_ones(rng: &mut Rng) {
    let clock = ManualClock::new();
    let max = 2 + rng.index(4);
    let growth = match rng.chance(0.3) {
        true => Growth::QueueFirst,
        false => Growth::ThreadsFirst,
    };
    let core = rng.index(max + 1);
    let pool = WorkerPool::builder("workers").clock(&clock).core(core);
    let pool = pool.max(max).queue(64).reserved(rng.index(max + 1));
    let pool = pool.growth(growth).keep_alive(SECOND).build().unwrap();
    let sure = match growth {
        Growth::ThreadsFirst => max,
        Growth::QueueFirst => core.max(1),
    };
    for _ in 0..12 {
        let mut held = sure - 1;
        let mut plans: [Vec<Step>; 2] = Default::default();
        for _ in 0..8 {
            let step = match rng.below(8) {
                0..2 if held > 0 => Step::Block,
                2 if held > 0 => Step::BlockIfIdle,
                3 => Step::PassTime,
                4 => Step::QuickInternal,
                _ => Step::Quick,
            };
            held -= usize::from(matches!(step, Step::Block | Step::BlockIfIdle));
            plans[rng.index(2)].push(step);
        }
        let (go_on, ran) = (Gate::new(), Counter::new());
        let quick = thread::scope(|scope| {
            let threads =
                plans.map(|steps| scope.spawn(|| submit(&pool, &clock, steps, &go_on, &ran)));
            threads.map(|one| one.join().unwrap()).iter().sum::<u64>()
        });
        ran.wait_for(quick);
        go_on.open();
        clock.settle();
        if rng.chance(0.5) {
            clock.advance(SECOND);
        }
    }
}

/// Performs the steps. Returns how many jobs will be counted.
fn submit(
    pool: &WorkerPool,
    clock: &ManualClock,
    steps: Vec<Step>,
    go_on: &Gate,
    ran: &Counter,
) -> u64 {
    let block = || Task::new(go_on.waits());
    let quick = || Task::new(ran.hits());
    let mut counted = 0;
    for step in steps {
        match step {
            Step::Block => pool.execute_task(block()).unwrap(),
            Step::BlockIfIdle => drop(pool.try_execute(block())),
            Step::Quick => pool.execute_task(quick()).unwrap(),
            Step::QuickInternal => pool.execute_internal(quick()).unwrap(),
            Step::PassTime => clock.jump(SECOND),
        }
        counted += u64::from(matches!(step, Step::Quick | Step::QuickInternal));
    }
    counted
}

#[test]
fn no_job_waits_for_a_held_thread_while_another_could_run_it() {
    let seeds = match size().0 {
        8 => 40,
        long => long * 20,
    };
    model(1..=seeds, run_beside_held_ones);
}
