//! Random operations on all parts of a strategy, with a stop at a random moment: one producer at a
//! time, no task lost, no task run twice.
//!
//! CI runs a few seeds; with `TIDEGATE_LONG=1` there are 200.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::{Blocking, Task};
use tidegate_testkit::{Rng, model, short_or_long, spin_times, until, yield_times};

use super::{KINDS, Kind, Made, ManualExecutor, Source, make};

const CALLERS: usize = 3;
const WORKERS: usize = 2;

/// Seeds, and operations of each caller.
fn size() -> (u64, usize) {
    short_or_long((8, 2_000), (200, 4_000))
}

/// State shared by the threads of one run.
struct Fixture {
    executor: Arc<ManualExecutor>,
    source: Source,
    made: Made,
    added: AtomicU64,
    refused: AtomicU64,
    callers_left: AtomicUsize,
    over: AtomicBool,
}

#[test]
fn random_calls_from_many_threads_lose_nothing() {
    let (seeds, operations) = size();
    for kind in KINDS {
        model(0..seeds, |rng| run(kind, rng, operations));
    }
}

fn run(kind: Kind, rng: &mut Rng, operations: usize) {
    let (executor, source) = (ManualExecutor::new(rng.index(4)), Source::new());
    let fixture = Arc::new_cyclic(|fixture: &std::sync::Weak<Fixture>| {
        let fixture = fixture.clone();
        let on_refused = move |task| {
            drop(task);
            if let Some(fixture) = fixture.upgrade() {
                fixture.refused.fetch_add(1, Ordering::Relaxed);
            }
        };
        Fixture {
            made: make(kind, source.producer(), executor.clone(), on_refused),
            executor,
            source,
            added: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            callers_left: AtomicUsize::new(CALLERS),
            over: AtomicBool::new(false),
        }
    });
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            let (fixture, rng) = (&fixture, rng.fork());
            scope.spawn(move || {
                fixture.call(rng, operations);
                fixture.callers_left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..WORKERS {
            scope.spawn(|| fixture.work());
        }
        if fixture.made.steps.is_some() {
            scope.spawn(|| fixture.tick());
        }
        until("the callers are done", || {
            fixture.callers_left.load(Ordering::Relaxed) == 0
        });
        fixture.over.store(true, Ordering::Relaxed);
    });
    fixture.executor.refuse(false);
    // Work that was left by a refused dispatch.
    fixture.made.strategy.produce();
    // A stand-in is not a thread of the executor and may still be about to finish.
    until("nothing is left to run and the strategy is idle", || {
        !fixture.executor.work() && fixture.made.strategy.is_idle()
    });
    assert_eq!(
        fixture.source.overlaps.count(),
        0,
        "two threads produced at once"
    );
    assert_eq!(fixture.made.strategy.metrics().producer_panics, 0);
    let (ran, gone) = (fixture.source.ran.count(), fixture.source.gone.count());
    let (added, refused) = (
        fixture.added.load(Ordering::Relaxed),
        fixture.refused.load(Ordering::Relaxed),
    );
    assert_eq!(
        (ran + refused, gone),
        (added, added),
        "{}",
        fixture.made.strategy.metrics()
    );
    assert_eq!(fixture.made.strategy.metrics().tasks(), added);
}

impl Fixture {
    fn call(self: &Arc<Self>, mut rng: Rng, operations: usize) {
        let strategy = &self.made.strategy;
        for _ in 0..operations {
            match rng.below(100) {
                0..60 => self.add(&mut rng),
                60..80 => strategy.produce(),
                80..92 => {
                    let _ = strategy.dispatch();
                }
                92..94 => tidegate_core::Blocking::forbid(|| strategy.produce()),
                94..96 => self.executor.refuse(rng.below(4) == 0),
                96..98 => self.executor.set_reserve(rng.index(4)),
                _ => self.executor.set_may_start(rng.index(2)),
            }
        }
        strategy.produce();
    }

    fn add(self: &Arc<Self>, rng: &mut Rng) {
        self.added.fetch_add(1, Ordering::Relaxed);
        let kinds = [Blocking::Never, Blocking::Adapts, Blocking::May];
        let kind = kinds[rng.index(3)];
        // A weak reference, because the queue and its tasks would otherwise keep each other alive.
        let fixture = Arc::downgrade(self);
        match rng.below(100) {
            0..5 => self.source.add(kind, silent_panic),
            5..15 => self.source.add(kind, move || {
                fixture.upgrade().unwrap().made.strategy.produce();
            }),
            15..20 => self.source.add(kind, move || {
                let _ = fixture.upgrade().unwrap().made.strategy.dispatch();
            }),
            20..30 => self.source.add(kind, || yield_times(1)),
            _ => self.source.add(kind, || ()),
        }
    }

    /// Acts as a thread of the pool until the callers have finished.
    fn work(self: &Arc<Self>) {
        let is_over = || self.over.load(Ordering::Relaxed);
        until("the callers are done", || {
            while !is_over() && self.executor.work() {}
            is_over()
        });
    }

    fn tick(&self) {
        let steps = self.made.steps.as_ref().unwrap();
        until("the callers are done", || {
            steps.tick(Duration::from_millis(30));
            self.over.load(Ordering::Relaxed)
        });
    }
}

/// Panics without printing a message: there are thousands of these panics.
fn silent_panic() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

#[test]
fn a_stop_at_any_moment_ends_the_producer_once_and_a_restart_works() {
    let (seeds, _) = size();
    for kind in KINDS {
        model(0..seeds * 4, |rng| stop_and_restart(kind, rng));
    }
}

fn stop_and_restart(kind: Kind, rng: &mut Rng) {
    let (executor, source) = (ManualExecutor::new(rng.index(3)), Source::new());
    let made = make(kind, source.producer(), executor.clone(), drop);
    for n in 0..200 {
        source.add([Blocking::Never, Blocking::May][n % 2], || ());
    }
    let spins = rng.below(2_000);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| made.strategy.produce());
        }
        scope.spawn(|| {
            spin_times(spins);
            made.strategy.shutdown();
        });
    });
    while executor.work() {}
    assert!(made.strategy.is_shutdown());
    assert!(made.restart(source.producer()));
    made.strategy.produce();
    while executor.work() {}
    assert_eq!((source.ran.count(), source.gone.count()), (200, 200));
    assert_eq!(source.overlaps.count(), 0, "two threads produced at once");
    source.push(Task::non_blocking(|| ()));
    made.strategy.produce();
    assert!(made.strategy.is_idle());
}
