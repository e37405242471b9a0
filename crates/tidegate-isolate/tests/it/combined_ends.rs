//! Everything against everything: callers that cancel, leave and wait, timeouts, settings that
//! change, dumps, resets of the breaker, and an end of the isolation in the middle, over pools with
//! parts of the program. Each call ends once, its work runs at most once and is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::{ManualClock, Task, ThreadBuilder};
use tidegate_isolate::{
    CallHandle, CancelOutcome, ConcurrencyStrategy, Event, Interrupt, Isolation, Properties,
};
use tidegate_pool::{HandedBack, WorkerPool};
use tidegate_testkit::{Counter, DropCount, Rng, until};

use crate::concurrency::Plain;
use crate::support::{Answer, Numbers, SECOND, builder, isolated, made, pool_of, with_handle};

const CALLERS: usize = 3;
const CALLS: usize = 40;
/// How a call ends, as its command counts it.
const OUTCOMES: [Event; 6] = [
    Event::Success,
    Event::Failure,
    Event::Timeout,
    Event::ShortCircuited,
    Event::PoolRejected,
    Event::Cancelled,
];

/// How the isolation ends while it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    AtOnce,
    InTime,
    Now,
    Dropped,
    KeyRemoved,
    /// The program shuts down the pool, and runs or drops what it hands back.
    Pool,
    /// The same, and nobody takes what it hands back.
    PoolUntaken,
}

const ENDS: [End; 7] = [
    End::AtOnce,
    End::InTime,
    End::Now,
    End::Dropped,
    End::KeyRemoved,
    End::Pool,
    End::PoolUntaken,
];

/// The parts of the pool that the program supplies.
#[derive(Clone, Copy, Debug)]
struct Parts {
    queue: bool,
    factory: bool,
    executor: bool,
}

fn parts(at: usize) -> Parts {
    Parts {
        queue: at & 1 != 0,
        factory: at & 2 != 0,
        executor: at & 4 != 0,
    }
}

fn strategy(parts: Parts, lender: &WorkerPool) -> ConcurrencyStrategy {
    let mut strategy = ConcurrencyStrategy::default();
    if parts.queue {
        strategy = strategy.queue(Plain::default());
    }
    if parts.factory {
        let spawn = |job: tidegate_core::thread::ThreadJob| {
            std::thread::Builder::new().spawn(|| job.run()).map(drop)
        };
        strategy = strategy.threads(ThreadBuilder::new("own").spawner(spawn));
    }
    if parts.executor {
        let lends = lender.clone();
        strategy = strategy.executor(move |task: Task| lends.execute_task(task));
    }
    strategy
}

/// One call, as its caller sees it.
struct Made {
    answer: Option<Answer>,
    handle: CallHandle,
    /// What the cancel found, and what it asked for.
    cancelled: Option<(CancelOutcome, Interrupt)>,
    ran: Arc<AtomicUsize>,
    /// Whether the work saw its token cancelled at its end.
    interrupted: Arc<AtomicBool>,
}

fn make(command: &Numbers, rng: &mut Rng, drops: &Counter) -> Made {
    let (ran, interrupted) = (Arc::new(AtomicUsize::new(0)), Arc::<AtomicBool>::default());
    let (runs, sees, kind) = (Arc::clone(&ran), Arc::clone(&interrupted), rng.below(8));
    let (dropped, yields) = (DropCount::new(drops), rng.below(4));
    let (call, handle) = with_handle(command.call());
    let mut answer = call.queue(move |cancel| {
        runs.fetch_add(1, Ordering::Relaxed);
        tidegate_testkit::yield_times(yields);
        sees.store(cancel.is_cancelled(), Ordering::Relaxed);
        drop(dropped);
        match kind {
            0 => Err("on purpose"),
            1 => panic!("on purpose"),
            _ => Ok(1),
        }
    });
    let cancel = |interrupt| Some((handle.cancel(interrupt), interrupt));
    let (answer, cancelled) = match rng.below(8) {
        0 => (Some(answer), cancel(Interrupt::Yes)),
        1 => (Some(answer), cancel(Interrupt::No)),
        2 => {
            answer.cancel();
            (Some(answer), None)
        }
        3 => (None, None),
        4 => {
            let waited = answer.wait_timeout(Duration::ZERO);
            drop(waited);
            (None, cancel(Interrupt::No))
        }
        _ => (Some(answer), None),
    };
    Made {
        answer,
        handle,
        cancelled,
        ran,
        interrupted,
    }
}

/// Changes settings, resets the breaker, dumps, and lets time pass.
fn disturb(rng: &mut Rng, isolation: Option<&Isolation>, clock: &ManualClock, live: &Properties) {
    let set = |name: &str, value: u64| {
        let name = format!("hystrix.{name}");
        if let Err(refused) = live.set(&name, value.to_string()) {
            let text = refused.to_string();
            assert!(
                name.contains("threadpool") && text.contains("shut down"),
                "{name}: {text}"
            );
        }
    };
    match rng.below(8) {
        0 => clock.jump(Duration::from_millis(rng.below(40))),
        1 => set(
            "command.a.execution.isolation.thread.timeoutInMilliseconds",
            20 + rng.below(80),
        ),
        2 => set("threadpool.a.queueSizeRejectionThreshold", 1 + rng.below(8)),
        3 => set(
            "command.a.circuitBreaker.requestVolumeThreshold",
            1 + rng.below(20),
        ),
        4 => set("threadpool.a.coreSize", 1 + rng.below(2)),
        _ => {}
    }
    let Some(isolation) = isolation else { return };
    match rng.below(4) {
        0 => assert!(isolation.dump().to_string().contains("isolation")),
        1 => drop(isolation.reset_breaker("a")),
        2 => drop((isolation.snapshots(), isolation.pool_snapshots())),
        _ => drop(isolation.settings()),
    }
}

/// What is left of the isolation after its end.
#[derive(Default)]
struct Left {
    isolation: Option<Isolation>,
    handed_back: Option<HandedBack>,
}

fn end_it(end: End, isolation: Isolation, clock: &ManualClock) -> Left {
    let mut handed_back = None;
    match end {
        End::AtOnce => drop(isolation.shutdown(Duration::ZERO)),
        End::InTime => {
            let ended = isolation.shutdown(SECOND);
            clock.jump(SECOND);
            until("the isolation has ended", || ended.is_done());
        }
        End::Now => isolation.shutdown_now(),
        End::Dropped => return Left::default(),
        End::KeyRemoved => assert!(isolation.remove("a")),
        End::Pool => {
            let pool = isolation.pool("a").unwrap();
            pool.shutdown(Duration::ZERO).wait().unwrap();
            handed_back = Some(pool.handed_back());
        }
        End::PoolUntaken => {
            let pool = isolation.pool("a").unwrap();
            drop(pool.shutdown(Duration::ZERO));
            return Left::default();
        }
    }
    Left {
        isolation: Some(isolation),
        handed_back,
    }
}

/// Checks one call. All of them have ended.
fn check(made: &Made) {
    let ran = made.ran.load(Ordering::Relaxed);
    assert!(ran <= 1, "it ran {ran} times");
    match made.cancelled {
        Some((CancelOutcome::NotBegun, _)) => assert_eq!(ran, 0, "it was cancelled before"),
        Some((CancelOutcome::Running, interrupt)) => {
            assert!(made.handle.has_begun());
            assert_eq!(ran, 1);
            let interrupted = made.interrupted.load(Ordering::Relaxed);
            assert!(interrupt == Interrupt::Yes || !interrupted);
        }
        _ => {}
    }
}

fn round(seed: u64, end: End, parts: Parts) {
    let mut rng = Rng::new(seed);
    let (clock, live) = (ManualClock::new(), Properties::new());
    let lender = WorkerPool::builder("lender").max(4).build().unwrap();
    let lends = lender.clone();
    let isolation = isolated(|i| {
        i.clock(&clock)
            .properties(live.clone())
            .on_unhandled(|_, _| ())
            .concurrency_strategy(move |_| strategy(parts, &lends))
    });
    let command = made(
        builder("a")
            .threads(pool_of(2, 6))
            .timeout(SECOND / 20)
            .configure(|c| c.interrupt_on_cancel = true),
        &isolation,
    );
    let (drops, count) = (Counter::new(), AtomicUsize::new(0));
    let end_at = rng.index(CALLERS * CALLS);
    let mut made = Vec::new();
    let left = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (mut rng, command) = (rng.fork(), command.clone());
                let (drops, count) = (drops.clone(), &count);
                scope.spawn(move || {
                    let call = |_| {
                        count.fetch_add(1, Ordering::Relaxed);
                        make(&command, &mut rng, &drops)
                    };
                    (0..CALLS).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        while count.load(Ordering::Relaxed) < end_at {
            disturb(&mut rng, Some(&isolation), &clock, &live);
        }
        let left = end_it(end, isolation, &clock);
        while callers.iter().any(|caller| !caller.is_finished()) {
            disturb(&mut rng, left.isolation.as_ref(), &clock, &live);
        }
        callers
            .into_iter()
            .for_each(|caller| made.extend(caller.join().unwrap()));
        left
    });
    let taken = left.handed_back.map(|list| list.take());
    for (at, task) in taken.into_iter().flatten().enumerate() {
        match at % 2 {
            0 => task.run(),
            _ => drop(task),
        }
    }
    // What still waits times out, if the isolation has timeouts.
    clock.jump(SECOND);
    let calls = (CALLERS * CALLS) as u64;
    until("each call has ended", || {
        made.iter()
            .all(|one| one.answer.as_ref().is_none_or(Answer::is_done))
    });
    until("each work is dropped", || drops.count() == calls);
    let ended = || {
        let snapshot = command.snapshot();
        let ended = OUTCOMES.iter().map(|event| snapshot.totals[*event]);
        (snapshot.active, ended.sum::<u64>())
    };
    until("each call is counted", || ended().1 >= calls);
    until("none is active", || ended() == (0, calls));
    made.iter().for_each(check);
}

#[test]
fn calls_end_once_however_everything_ends() {
    let rounds = tidegate_testkit::rounds(1) as u64;
    for seed in 0..rounds {
        for (at, end) in ENDS.into_iter().enumerate() {
            for kind in 0..8 {
                let seed = seed * 1000 + (at * 10 + kind) as u64;
                println!("seed {seed}: {end:?}, {:?}", parts(kind));
                round(seed, end, parts(kind));
            }
        }
    }
}
