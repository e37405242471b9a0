//! Scheduled and periodic tasks of worker pools and ordered views. Tests that hold for both run
//! over both.

mod cancels;
mod ends;
mod handed_back;
mod refusals;
mod stress;
mod timing;
mod views;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ManualClock, OnUnhandled, Rejected};
use tidegate_pool::{Missed, OrderedView, PeriodError, WorkerPool, WorkerPoolBuilder};
use tidegate_promise::Completion;
use tidegate_testkit::{Gate, Log, Stop};

/// A pool on a manual clock, or a view over it.
enum Target {
    Pool(WorkerPool),
    View(OrderedView),
}

/// Creates a builder for a pool of `threads` threads and a queue of `queue` jobs.
fn fixed(clock: &ManualClock, threads: usize, queue: usize) -> WorkerPoolBuilder {
    let builder = WorkerPool::builder("workers").clock(clock);
    // Idle threads never end, so that a long time has few deadlines.
    let builder = builder.keep_alive(Duration::ZERO);
    builder.core(threads).max(threads).queue(queue).reserved(0)
}

fn view_of(pool: &WorkerPool) -> OrderedView {
    OrderedView::over(Arc::new(pool.clone())).unwrap()
}

/// Runs `test` over a pool with two threads, then over a view of such a pool.
fn for_both(test: impl Fn(&Target, &ManualClock)) {
    let clock = ManualClock::new();
    test(&Target::Pool(fixed(&clock, 2, 64).build().unwrap()), &clock);
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 64).build().unwrap();
    test(&Target::View(view_of(&pool)), &clock);
}

impl Target {
    fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self {
            Self::Pool(pool) => pool.schedule(after, run),
            Self::View(view) => view.schedule(after, run),
        }
    }

    fn at_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        missed: Missed,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        match self {
            Self::Pool(pool) => pool.schedule_at_rate(first, period, missed, run),
            Self::View(view) => view.schedule_at_rate(first, period, missed, run),
        }
    }

    fn at_fixed_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        match self {
            Self::Pool(pool) => pool.schedule_at_fixed_rate(first, period, run),
            Self::View(view) => view.schedule_at_fixed_rate(first, period, run),
        }
    }

    fn with_fixed_delay<F>(
        &self,
        first: Duration,
        pause: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        match self {
            Self::Pool(pool) => pool.schedule_with_fixed_delay(first, pause, run),
            Self::View(view) => view.schedule_with_fixed_delay(first, pause, run),
        }
    }

    fn is_current(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.is_current(),
            Self::View(view) => view.is_current(),
        }
    }
}

impl Clone for Target {
    fn clone(&self) -> Self {
        match self {
            Self::Pool(pool) => Self::Pool(pool.clone()),
            Self::View(view) => Self::View(view.clone()),
        }
    }
}

/// Returns a task that logs the time of each run, in milliseconds.
fn log_time(clock: &ManualClock, log: &Log<u64>) -> impl FnMut() + Send + 'static + use<> {
    let (clock, log) = (clock.clone(), log.clone());
    move || log.push(clock.nanos() / 1_000_000)
}

/// Keeps one thread of the pool busy until the returned gate is opened.
fn hold(pool: &WorkerPool) -> Gate {
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    stop.reached()
}

/// Returns a hook for unhandled errors, and its log.
fn heard() -> (OnUnhandled, Log<String>) {
    let (log, heard) = Log::pair();
    let hook = OnUnhandled::new(move |_, what| heard.push(what.to_string()));
    (hook, log)
}
