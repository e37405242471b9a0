//! Suite `isolate`: what a guarded call costs, and how long the way through a thread bulkhead is.
//!
//! Beside the measured peers stands Hystrix, as others have measured it on such a machine: 7 to 8 µs for a call with a
//! semaphore, 21 µs with a thread pool and 29 µs with its timeout on.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use failsafe::CircuitBreaker as _;
use tidegate_isolate::{
    AdaptiveLimit, BreakerConfig, BreakerMode, Command, Isolation, Permits, PoolConfig,
};
use tidegate_sync::{Clock, FastClock};
use tower::Service;

use crate::report::{Better, Heading, Ratio, Role, Sample, Table, quantile};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// Calls that may run at the same time.
const LIMIT: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(1);
/// Calls that are under way at the same time in the throughput table.
const IN_FLIGHT: u64 = 64;

const CHEAP: Work = Work {
    first: 10_000,
    most: 100_000_000,
};
const ROUND_TRIPS: Work = Work {
    first: 200,
    most: 1_000_000,
};

type Failure = std::io::Error;

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![
        permits(settings),
        guarded(settings),
        guarded_by_two(settings),
        rejection(settings),
        round_trip(settings),
        round_trip_tail(settings),
        throughput(settings),
        resize(settings),
        clock_error(settings),
    ]
}

fn heading(title: &str, ratios: &[(&str, Role)]) -> Heading {
    let ratio = |&(name, against): &(&str, Role)| Ratio {
        name: name.to_owned(),
        against,
    };
    Heading {
        title: format!("isolate, {title}"),
        unit: "ns per call",
        better: Better::Less,
        side: None,
        ratios: ratios.iter().map(ratio).collect(),
    }
}

/// The work that is guarded: nothing that could hide the guard.
fn work(n: u64) -> Result<u64, Failure> {
    Ok(black_box(n) + 1)
}

fn permits(settings: &Settings) -> Table {
    let ours = Permits::new(LIMIT);
    let tokio = tokio::sync::Semaphore::new(LIMIT);
    let bare = AtomicUsize::new(0);
    let mut tower = tower::limit::ConcurrencyLimit::new(
        tower::service_fn(|n: u64| std::future::ready(work(n))),
        LIMIT,
    );
    let lineup = vec![
        each("tidegate Permits", Role::Ours, move |n| {
            let held = ours.try_borrow().expect("nobody else holds one");
            black_box(work(n)).ok();
            drop(held);
        }),
        each("tokio Semaphore try_acquire", Role::Peer, move |n| {
            let held = tokio.try_acquire().expect("nobody else holds one");
            black_box(work(n)).ok();
            drop(held);
        }),
        each("tower ConcurrencyLimit", Role::Peer, move |n| {
            black_box(call_ready(&mut tower, n)).ok();
        }),
        each("two bare atomics", Role::Floor, move |n| {
            bare.fetch_add(1, Ordering::Acquire);
            black_box(work(n)).ok();
            bare.fetch_sub(1, Ordering::Release);
        }),
    ];
    let heading = heading("permits, one thread", &[("permits", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}

/// Permits, breaker, timeout and metrics.
fn full(isolation: &Isolation, key: &str) -> Command<u64, Failure> {
    Command::builder(key)
        .group("bench")
        .permits(LIMIT)
        .timeout(TIMEOUT)
        .build(isolation)
        .expect("the settings agree with each other")
}

fn isolation() -> Isolation {
    Isolation::builder().build().expect("nothing was asked for")
}

fn guarded(settings: &Settings) -> Table {
    let isolation = isolation();
    let all = full(&isolation, "full");
    let adaptive: Command<u64, Failure> = Command::builder("adaptive")
        .group("bench")
        .adaptive(AdaptiveLimit::gradient2())
        .build(&isolation)
        .expect("the settings agree with each other");
    let lineup = vec![
        each("tidegate command, all of it", Role::Ours, move |n| {
            black_box(all.run(move |_| work(n))).ok();
        }),
        each("tidegate command, adaptive limit", Role::Floor, move |n| {
            black_box(adaptive.run(move |_| work(n))).ok();
        }),
        each("tower Timeout+ConcurrencyLimit+failsafe", Role::Peer, {
            let stack = Stack::new();
            let mut service = stack.service();
            let runtime = runtime();
            move |n| {
                let _entered = runtime.enter();
                black_box(stack.call(&mut service, n));
            }
        }),
    ];
    let title = "permits+breaker+timeout+metrics, one thread";
    rounds::race(
        heading(title, &[("guarded_full", Role::Peer)]),
        CHEAP,
        lineup,
        settings,
    )
}

fn guarded_by_two(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = full(&isolation, "full");
    let stack = Arc::new(Stack::new());
    let lineup = vec![
        by_two("tidegate command, all of it", Role::Ours, move |count| {
            for n in 0..count {
                black_box(command.run(move |_| work(n))).ok();
            }
        }),
        by_two(
            "tower Timeout+ConcurrencyLimit+failsafe",
            Role::Peer,
            move |count| {
                let runtime = runtime();
                let _entered = runtime.enter();
                let mut service = stack.service();
                for n in 0..count {
                    black_box(stack.call(&mut service, n));
                }
            },
        ),
    ];
    let title = "permits+breaker+timeout+metrics, two threads";
    let heading = heading(title, &[("guarded_full_2threads", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}

fn rejection(settings: &Settings) -> Table {
    let isolation = isolation();
    let busy: Command<u64, Failure> = Command::builder("busy")
        .group("bench")
        .permits(1)
        .breaker(BreakerConfig {
            mode: BreakerMode::Disabled,
            ..BreakerConfig::default()
        })
        .build(&isolation)
        .expect("the settings agree with each other");
    let open: Command<u64, Failure> = Command::builder("open")
        .group("bench")
        .breaker(BreakerConfig {
            mode: BreakerMode::ForcedOpen,
            ..BreakerConfig::default()
        })
        .build(&isolation)
        .expect("the settings agree with each other");
    // A future that never ends holds the one permit.
    let mut held = Box::pin(busy.run_async(|_| std::future::pending()));
    let pending = held.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(pending.is_pending(), "it holds the permit");
    let mut shed = shed();
    let lineup = vec![
        each("tidegate command, permits held", Role::Ours, move |n| {
            black_box(&held);
            black_box(busy.run(move |_| work(n))).ok();
        }),
        each("tidegate command, breaker open", Role::Floor, move |n| {
            black_box(open.run(move |_| work(n))).ok();
        }),
        each("tower LoadShed+ConcurrencyLimit", Role::Peer, move |n| {
            black_box(call_ready(&mut shed, n)).ok();
        }),
    ];
    let heading = heading("a refusal", &[("rejection", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}

fn on_threads(isolation: &Isolation, queue: usize) -> Command<u64, Failure> {
    let pool = PoolConfig {
        core: LIMIT,
        max: LIMIT,
        queue,
        ..PoolConfig::default()
    };
    Command::builder("threads")
        .group("bench")
        .threads(pool)
        .timeout(TIMEOUT)
        .build(isolation)
        .expect("the settings agree with each other")
}

fn round_trip(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, 10);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        each("tidegate thread bulkhead", Role::Ours, move |n| {
            black_box(command.run(move |_| work(n))).ok();
        }),
        Entry {
            name: "tokio spawn_blocking".to_owned(),
            role: Role::Peer,
            quick: true,
            run: Box::new(move |count| {
                timed(count, || {
                    runtime.block_on(async {
                        for n in 0..count {
                            black_box(tokio::task::spawn_blocking(move || work(n)).await).ok();
                        }
                    });
                })
            }),
        },
        each("rayon spawn + oneshot", Role::Inline, move |n| {
            let (tell, told) = oneshot::channel();
            rayon.spawn(move || drop(tell.send(work(n))));
            black_box(told.recv()).ok();
        }),
    ];
    let ratios = [
        ("thread_roundtrip_over_tokio", Role::Peer),
        ("thread_roundtrip_over_rayon", Role::Inline),
    ];
    let heading = heading("round trip through a thread", &ratios);
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// The same round trip, as the slowest of a hundred see it.
fn round_trip_tail(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, 10);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        tail("tidegate thread bulkhead", Role::Ours, move |n| {
            black_box(command.run(move |_| work(n))).ok();
        }),
        tail("tokio spawn_blocking", Role::Floor, move |n| {
            let answer = runtime.block_on(tokio::task::spawn_blocking(move || work(n)));
            black_box(answer).ok();
        }),
        tail("rayon spawn + oneshot", Role::Floor, move |n| {
            let (tell, told) = oneshot::channel();
            rayon.spawn(move || drop(tell.send(work(n))));
            black_box(told.recv()).ok();
        }),
    ];
    let heading = Heading {
        unit: "ns, p99",
        side: Some("p50"),
        ..heading("round trip through a thread, 99th percentile", &[])
    };
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// Every limit of a busy pool is changed between any two batches of 64 calls.
fn resize(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, IN_FLIGHT as usize * 2);
    let batch = |command: &Command<u64, Failure>, n: u64| {
        let answers: Vec<_> = (0..IN_FLIGHT)
            .map(|at| command.queue(move |_| work(n + at)))
            .collect();
        answers.into_iter().for_each(|answer| {
            black_box(answer.wait()).ok();
        });
    };
    let steady = command.clone();
    let lineup = vec![
        in_flight("resized between batches", Role::Ours, move |n| {
            let threads = if n % 2 == 0 { LIMIT } else { LIMIT / 2 };
            let changed = command.configure(|config| {
                (config.pool.core, config.pool.max) = (threads, threads);
            });
            changed.expect("the settings agree with each other");
            batch(&command, n);
        }),
        in_flight("left alone", Role::Floor, move |n| batch(&steady, n)),
    ];
    rounds::race(
        heading("64 in flight, live resize", &[]),
        ROUND_TRIPS,
        lineup,
        settings,
    )
}

/// How far the clock that calls are timed with is from the system's.
fn clock_error(settings: &Settings) -> Table {
    let clock = Clock::system();
    let (fast, exact) = (FastClock::new(&clock), clock.clone());
    let entry = |name: &str, role: Role, mut read: Box<dyn FnMut() -> f64>| Entry {
        name: name.to_owned(),
        role,
        quick: true,
        run: Box::new(move |count| {
            let began = Instant::now();
            let value = (0..count).map(|_| read()).fold(0.0, f64::max);
            Outcome {
                elapsed: began.elapsed(),
                sample: Sample { value, side: None },
            }
        }),
    };
    let differs = move || {
        let (before, told, after) = (exact.nanos(), fast.nanos(), exact.nanos());
        let early = before.saturating_sub(told);
        early.max(told.saturating_sub(after)) as f64
    };
    let worst = FastClock::new(&clock);
    let lineup = vec![
        entry(
            "outside of two readings around it",
            Role::Ours,
            Box::new(differs),
        ),
        entry(
            "what its calibrations found",
            Role::Floor,
            Box::new(move || {
                black_box(worst.nanos());
                worst.worst_error().as_nanos() as f64
            }),
        ),
    ];
    let heading = Heading {
        unit: "ns, the worst of a round",
        ..heading("error of the cycle clock", &[])
    };
    rounds::race(heading, CHEAP, lineup, settings)
}

fn throughput(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, IN_FLIGHT as usize * 2);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        in_flight("tidegate thread bulkhead", Role::Ours, move |n| {
            let answers: Vec<_> = (0..IN_FLIGHT)
                .map(|at| command.queue(move |_| work(n + at)))
                .collect();
            answers.into_iter().for_each(|answer| {
                black_box(answer.wait()).ok();
            });
        }),
        in_flight("tokio spawn_blocking", Role::Peer, move |n| {
            runtime.block_on(async {
                let answers: Vec<_> = (0..IN_FLIGHT)
                    .map(|at| tokio::task::spawn_blocking(move || work(n + at)))
                    .collect();
                for answer in answers {
                    black_box(answer.await).ok();
                }
            });
        }),
        in_flight("rayon spawn + oneshot", Role::Floor, move |n| {
            let answers: Vec<_> = (0..IN_FLIGHT)
                .map(|at| {
                    let (tell, told) = oneshot::channel();
                    rayon.spawn(move || drop(tell.send(work(n + at))));
                    told
                })
                .collect();
            answers.into_iter().for_each(|answer| {
                black_box(answer.recv()).ok();
            });
        }),
    ];
    let heading = heading(
        "64 in flight on threads",
        &[("thread_throughput", Role::Peer)],
    );
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// A contestant that makes one call at a time on this thread.
fn each(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: true,
        run: Box::new(move |count| timed(count, || (0..count).for_each(&mut call))),
    }
}

/// A contestant whose calls are timed one by one.
fn tail(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: false,
        run: Box::new(move |count| {
            let began = Instant::now();
            let mut each: Vec<f64> = (0..count)
                .map(|n| {
                    let began = Instant::now();
                    call(n);
                    began.elapsed().as_nanos() as f64
                })
                .collect();
            let elapsed = began.elapsed();
            each.sort_by(f64::total_cmp);
            Outcome {
                elapsed,
                sample: Sample {
                    value: quantile(&each, 0.99),
                    side: Some(quantile(&each, 0.5)),
                },
            }
        }),
    }
}

/// A contestant whose call makes 64 at once.
fn in_flight(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: true,
        run: Box::new(move |count| {
            let turns = count.div_ceil(IN_FLIGHT);
            timed(turns * IN_FLIGHT, || (0..turns).for_each(&mut call))
        }),
    }
}

/// A contestant that two threads use at the same time; the figure is what each of them sees.
fn by_two(name: &str, role: Role, calls: impl Fn(u64) + Sync + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: true,
        run: Box::new(move |count| {
            timed(count, || {
                thread::scope(|scope| {
                    scope.spawn(|| calls(count));
                    calls(count);
                });
            })
        }),
    }
}

fn timed(count: u64, run: impl FnOnce()) -> Outcome {
    let began = Instant::now();
    run();
    let elapsed = began.elapsed();
    Outcome {
        elapsed,
        sample: Sample {
            value: elapsed.as_nanos() as f64 / count as f64,
            side: None,
        },
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .expect("the system has what a runtime needs")
}

fn one_rayon_thread() -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    builder.build().expect("the system has a thread")
}

/// Polls a service until it is ready and its answer once: nothing here waits.
fn call_ready<S: Service<u64>>(service: &mut S, n: u64) -> Result<S::Response, S::Error> {
    let mut context = Context::from_waker(Waker::noop());
    match service.poll_ready(&mut context) {
        Poll::Ready(ready) => ready?,
        Poll::Pending => unreachable!("a permit is free"),
    }
    match pin!(service.call(n)).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the work is ready at once"),
    }
}

type Breaker = failsafe::StateMachine<
    failsafe::failure_policy::OrElse<
        failsafe::failure_policy::SuccessRateOverTimeWindow<failsafe::backoff::EqualJittered>,
        failsafe::failure_policy::ConsecutiveFailures<failsafe::backoff::EqualJittered>,
    >,
    (),
>;

/// What a Rust program stacks up to get most of what a command does, without metrics.
struct Stack {
    limit: tower::limit::GlobalConcurrencyLimitLayer,
    breaker: Breaker,
}

impl Stack {
    fn new() -> Self {
        Self {
            limit: tower::limit::GlobalConcurrencyLimitLayer::new(LIMIT),
            breaker: failsafe::Config::new().build(),
        }
    }

    /// One service per thread; the permits and the breaker are shared.
    fn service(&self) -> impl Service<u64, Response = u64, Error = tower::BoxError> + use<> {
        use tower::Layer;
        let service = tower::service_fn(|n: u64| std::future::ready(work(n)));
        tower::timeout::Timeout::new(self.limit.layer(service), TIMEOUT)
    }

    fn call<S>(&self, service: &mut S, n: u64) -> bool
    where
        S: Service<u64, Response = u64, Error = tower::BoxError>,
    {
        self.breaker.call(|| call_ready(service, n)).is_ok()
    }
}

/// A stack that refuses: its one permit is held.
fn shed() -> impl Service<u64, Response = u64, Error = tower::BoxError> {
    use tower::Layer;
    let limit = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let mut first = limit.layer(tower::service_fn(|n: u64| std::future::ready(work(n))));
    let mut context = Context::from_waker(Waker::noop());
    // Ready means that it has the permit, and it keeps it.
    assert!(first.poll_ready(&mut context).is_ready());
    std::mem::forget(first);
    let service = limit.layer(tower::service_fn(|n: u64| std::future::ready(work(n))));
    tower::load_shed::LoadShed::new(service)
}
