//! Timers across threads: add and cancel from another thread, and lateness by a real clock.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_loop::EventLoop;
use tidegate_timer::WheelTimer;

use super::lineup::TICK;
use crate::report::{Better, Heading, Role, Sample, Table, quantile};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// Number of timeouts in one measurement of lateness, due over one second.
const SPREAD: usize = 100_000;

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    let mut tables = vec![lateness(settings)];
    if !settings.quick {
        tables.push(remote(settings));
    }
    tables
}

/// Measures a pair of add and cancel from a thread that does not own the timers, with a million
/// timers pending. Every contestant here reads the clock once per add, as its interface requires.
fn remote(settings: &Settings) -> Table {
    let heading = Heading {
        title: "timer, add then cancel from another thread, 1,000,000 waiting (reads the clock)"
            .to_owned(),
        unit: "ns",
        better: Better::Less,
        side: None,
        ratios: Vec::new(),
    };
    let work = Work {
        first: 10_000,
        most: 2_000_000,
    };
    let timer = WheelTimer::builder("bench").tick(TICK).slots(8192);
    let timer = timer.build().expect("a sound geometry");
    let hour = Duration::from_secs(3600);
    for _ in 0..super::OUTSTANDING {
        timer.schedule(hour, || ()).expect("there is no limit");
    }
    let wheel_timer = entry("tidegate WheelTimer", Role::Ours, move |count| {
        for _ in 0..count {
            let handle = timer.schedule(hour, || ()).expect("there is no limit");
            handle.cancel();
        }
    });
    let lineup = vec![
        wheel_timer,
        loop_remote(hour),
        loop_itself(hour),
        tokio_remote(hour),
        pingora(),
    ];
    rounds::race(heading, work, lineup, settings)
}

/// Creates an event loop with a million timeouts.
fn full_loop(hour: Duration) -> EventLoop {
    let home = EventLoop::builder("bench").coarse_tick(TICK).build();
    let home = home.expect("a sound tick");
    for _ in 0..super::OUTSTANDING {
        home.schedule_coarse(hour, || ()).expect("the loop lives");
    }
    home.settle();
    home
}

fn loop_remote(hour: Duration) -> Entry {
    let home = full_loop(hour);
    entry("tidegate EventLoop::timeout", Role::Ours, move |count| {
        for _ in 0..count {
            let handle = home.schedule_coarse(hour, || ()).expect("the loop lives");
            handle.cancel();
        }
    })
}

/// Measures the same pairs on the event loop that owns the timers.
fn loop_itself(hour: Duration) -> Entry {
    let home = full_loop(hour);
    entry(
        "tidegate EventLoop::timeout, on the loop",
        Role::Ours,
        move |count| {
            let here = home.clone();
            let done = home.submit(move || {
                for _ in 0..count {
                    let handle = here.schedule_coarse(hour, || ()).expect("the loop lives");
                    handle.cancel();
                }
            });
            done.expect("the loop lives")
                .wait()
                .expect("it does not panic");
        },
    )
}

/// Creates a tokio runtime with one worker and timers.
fn one_worker() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build();
    runtime.expect("a runtime can be had")
}

fn tokio_remote(hour: Duration) -> Entry {
    let runtime = one_worker();
    let far = tokio::time::Instant::now() + hour;
    let mut kept = Vec::with_capacity(super::OUTSTANDING);
    {
        let _inside = runtime.enter();
        for _ in 0..super::OUTSTANDING {
            kept.push(polled(far));
        }
    }
    entry("tokio Sleep", Role::Peer, move |count| {
        let _inside = runtime.enter();
        assert!(!kept.is_empty());
        for _ in 0..count {
            drop(polled(tokio::time::Instant::now() + hour));
        }
    })
}

fn polled(at: tokio::time::Instant) -> std::pin::Pin<Box<tokio::time::Sleep>> {
    let mut sleep = Box::pin(tokio::time::sleep_until(at));
    let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it lies an hour ahead");
    sleep
}

/// Not part of a ratio: pingora-timeout shares one timer per tick among all callers, and registers
/// nothing until it is polled.
fn pingora() -> Entry {
    // It leaves timeouts of a quarter of an hour or more to tokio.
    let minutes = Duration::from_secs(600);
    entry("pingora-timeout (polled once)", Role::Floor, move |count| {
        for _ in 0..count {
            let never = std::future::pending::<()>();
            let mut timeout = Box::pin(pingora_timeout::fast_timeout::fast_timeout(minutes, never));
            let polled = timeout
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "it lies minutes ahead");
        }
    })
}

fn entry(name: &str, role: Role, mut work: impl FnMut(u64) + 'static) -> Entry {
    Entry::new(name, role, move |count| {
        Outcome::timed(count, || work(count))
    })
}

/// Measures how late 100,000 timeouts fire that are due over one second; the worst of each run goes
/// to stderr.
fn lateness(settings: &Settings) -> Table {
    let heading = Heading {
        title: "timer, lateness p99 of 100,000 timeouts over one second, ticks of 1 ms".to_owned(),
        unit: "ms",
        better: Better::Less,
        side: Some("p50"),
        ratios: Vec::new(),
    };
    let once = Work { first: 1, most: 1 };
    let late = |name: &str, role, run: fn(&Arc<[AtomicU64]>)| {
        let label = name.to_owned();
        Entry::new(name, role, move |_| {
            let began = Instant::now();
            let late: Arc<[AtomicU64]> = (0..SPREAD).map(|_| AtomicU64::new(u64::MAX)).collect();
            run(&late);
            summary(&label, &late, began.elapsed())
        })
    };
    let lineup = vec![
        late("tidegate WheelTimer", Role::Ours, late_wheel_timer),
        late("tokio spawn(sleep)", Role::Peer, late_tokio),
        late("a thread that only sleeps", Role::Floor, late_thread),
    ];
    let settings = Settings {
        rounds: Some(settings.rounds.unwrap_or(5).min(5)),
        ..settings.clone()
    };
    rounds::race(heading, once, lineup, &settings)
}

fn summary(name: &str, late: &[AtomicU64], elapsed: Duration) -> Outcome {
    let ms = |late: &AtomicU64| late.load(Ordering::Relaxed) as f64 / 1e6;
    let mut sorted: Vec<f64> = late.iter().map(ms).collect();
    sorted.sort_by(f64::total_cmp);
    eprintln!(
        "    {name:34} late by p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms",
        quantile(&sorted, 0.5),
        quantile(&sorted, 0.99),
        quantile(&sorted, 1.0)
    );
    Outcome {
        elapsed,
        sample: Sample {
            value: quantile(&sorted, 0.99),
            side: Some(quantile(&sorted, 0.5)),
        },
    }
}

/// Returns the due time of a timeout: spread over one second, after a lead of half a second.
fn due(start: Instant, number: usize) -> Instant {
    let place = (number as u64 * 7_919) % SPREAD as u64;
    start + Duration::from_millis(500) + Duration::from_micros(place * 10)
}

fn note(late: &[AtomicU64], number: usize, due: Instant) {
    let by = Instant::now().saturating_duration_since(due).as_nanos();
    late[number].store(by as u64, Ordering::Relaxed);
}

fn wait_for(late: &[AtomicU64]) {
    while late
        .iter()
        .any(|one| one.load(Ordering::Relaxed) == u64::MAX)
    {
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn late_wheel_timer(late: &Arc<[AtomicU64]>) {
    let timer = WheelTimer::builder("bench").tick(TICK).slots(8192);
    let timer = timer.build().expect("a sound geometry");
    let start = Instant::now();
    for number in 0..SPREAD {
        let (late, due) = (Arc::clone(late), due(start, number));
        let after = due.saturating_duration_since(Instant::now());
        timer
            .schedule(after, move || note(&late, number, due))
            .expect("there is no limit");
    }
    wait_for(late);
}

/// The best that the machine allows: wakes up at each due millisecond and does nothing else.
fn late_thread(late: &Arc<[AtomicU64]>) {
    let start = Instant::now();
    let each = SPREAD / 1_000;
    for ms in 0..1_000 {
        let due = start + Duration::from_millis(500 + ms as u64);
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
        for number in ms * each..(ms + 1) * each {
            note(late, number, due);
        }
    }
}

fn late_tokio(late: &Arc<[AtomicU64]>) {
    let runtime = one_worker();
    let start = Instant::now();
    for number in 0..SPREAD {
        let (late, due) = (Arc::clone(late), due(start, number));
        runtime.spawn(async move {
            tokio::time::sleep_until(due.into()).await;
            note(&late, number, due);
        });
    }
    wait_for(late);
}
