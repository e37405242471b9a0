//! Helpers that the tests share.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{ManualClock, Parker};
use tidegate_isolate::{
    BreakerConfig, BreakerWindow, Call, CallHandle, Cause, Command, CommandBuilder, CommandConfig,
    CommandError, Event, EventSet, Isolation, IsolationBuilder, PermitConfig, PoolConfig,
    PoolSnapshot, Properties,
};
use tidegate_promise::Completion;
use tidegate_testkit::Gate;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A command with the result and error types of these tests.
pub(crate) type Numbers = Command<u32, &'static str>;
pub(crate) type Builder = CommandBuilder<u32, &'static str>;
pub(crate) type Answer = Completion<u32, CommandError<&'static str>>;

/// Builds an isolation on a clock that stands still.
pub(crate) fn still() -> (ManualClock, Isolation) {
    still_with(|i| i)
}

/// Builds an isolation with parts of the test.
pub(crate) fn isolated(with: impl FnOnce(IsolationBuilder) -> IsolationBuilder) -> Isolation {
    with(Isolation::builder()).build().unwrap()
}

/// Like [`isolated`], on a clock that stands still.
pub(crate) fn still_with(
    with: impl FnOnce(IsolationBuilder) -> IsolationBuilder,
) -> (ManualClock, Isolation) {
    let clock = ManualClock::new();
    let isolation = isolated(|i| with(i.clock(&clock)));
    (clock, isolation)
}

/// Changes the settings of a command.
pub(crate) fn set(command: &Numbers, change: impl FnOnce(&mut CommandConfig) + Clone) {
    command.configure(change).unwrap();
}

/// Builds a command with key `a` in an isolation of its own, on a clock that stands still.
pub(crate) fn alone(with: impl FnOnce(Builder) -> Builder) -> (ManualClock, Isolation, Numbers) {
    alone_in(still(), with)
}

/// Like [`alone`], in this isolation.
pub(crate) fn alone_in(
    (clock, isolation): (ManualClock, Isolation),
    with: impl FnOnce(Builder) -> Builder,
) -> (ManualClock, Isolation, Numbers) {
    let command = made(with(builder("a")), &isolation);
    (clock, isolation, command)
}

/// Builds a command with this many threads, whose work is interrupted when its call is cancelled.
pub(crate) fn interruptible(threads: usize) -> (ManualClock, Isolation, Numbers) {
    alone(|c| {
        c.threads(pool_of(threads, 8))
            .no_timeout()
            .configure(|c| c.interrupt_on_cancel = true)
    })
}

/// Builds an isolation with properties that can be set.
pub(crate) fn with_properties() -> (Properties, Isolation) {
    let properties = Properties::new();
    let isolation = isolated(|i| i.properties(properties.clone()));
    (properties, isolation)
}

pub(crate) fn set_property(properties: &Properties, name: &str, value: &str) {
    properties.set(name, value).unwrap();
}

/// Builds a command with key `a` in an isolation with properties.
pub(crate) fn tunable(with: impl FnOnce(Builder) -> Builder) -> (Properties, Isolation, Numbers) {
    let (properties, isolation) = with_properties();
    let command = made(with(builder("a")), &isolation);
    (properties, isolation, command)
}

/// Like [`with_properties`], but the commands of a group share a pool.
pub(crate) fn by_group() -> (Properties, Isolation) {
    let properties = Properties::new();
    let isolation = Isolation::builder().properties(properties.clone());
    (properties, isolation.pools_by_group().build().unwrap())
}

pub(crate) fn builder(key: &str) -> Builder {
    Command::builder(key).group("tests")
}

pub(crate) fn made<T, E>(builder: CommandBuilder<T, E>, isolation: &Isolation) -> Command<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    builder.build(isolation).unwrap()
}

/// Returns settings with this many threads and queue places.
pub(crate) fn pool_of(core: usize, queue: usize) -> PoolConfig {
    PoolConfig {
        core,
        queue,
        ..PoolConfig::default()
    }
}

/// Returns settings with this many permits, for which a caller waits for a time.
pub(crate) fn waiting(limit: usize, max_wait: Duration) -> PermitConfig {
    PermitConfig {
        max_wait,
        ..PermitConfig::from(limit)
    }
}

/// Returns a breaker that opens with the first failure, for five seconds.
pub(crate) fn touchy() -> BreakerConfig {
    BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    }
}

/// Returns the snapshot of the only pool.
pub(crate) fn pool(isolation: &Isolation) -> PoolSnapshot {
    isolation.pool_snapshots().remove(0)
}

/// Starts a call, waits until its work is running, and keeps it running until the gate opens.
pub(crate) fn hold(command: &Numbers, until: &Gate) -> Answer {
    hold_call(command.call(), until)
}

/// Like [`hold`], with a call that has settings of its own.
pub(crate) fn hold_call(call: Call<u32, &'static str>, until: &Gate) -> Answer {
    let inside = Gate::new();
    let (mine, until) = (inside.clone(), until.clone());
    let answer = call.queue(move |_| {
        mine.open();
        until.wait();
        Ok(0)
    });
    inside.wait();
    answer
}

/// Returns the call and its handle.
pub(crate) fn with_handle<T: Send + 'static, E: Send + 'static>(
    mut call: Call<T, E>,
) -> (Call<T, E>, CallHandle) {
    let handle = call.handle();
    (call, handle)
}

/// Runs `then` while the work of `count` calls of a command with permits is running.
pub(crate) fn while_inside(command: &Numbers, count: usize, then: impl FnOnce()) {
    let go_on = Gate::new();
    std::thread::scope(|scope| {
        for _ in 0..count {
            let inside = Gate::new();
            let (mine, go_on) = (inside.clone(), go_on.clone());
            scope.spawn(move || {
                command.run_in_place(|_| {
                    mine.open();
                    go_on.wait();
                    Ok(0)
                })
            });
            inside.wait();
        }
        then();
        go_on.open();
    });
}

pub(crate) fn cause(answer: Answer) -> Cause<&'static str> {
    let error = answer.wait().unwrap_err().failure();
    error.expect("it failed").into_cause()
}

pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future that wakes this parker.
pub(crate) fn poll_by<F: Future + ?Sized>(parker: &Parker, future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(parker)))
}

/// Returns the error of a future that must have failed, for the reason given.
#[track_caller]
pub(crate) fn failed<T: Debug, E: Debug>(polled: Poll<Result<T, E>>, why: &str) -> E {
    match polled {
        Poll::Ready(Err(error)) => error,
        other => panic!("{why}: {other:?}"),
    }
}

/// Returns every event that was counted, with its count.
pub(crate) fn counted(command: &Numbers) -> Vec<(Event, u64)> {
    let totals = command.snapshot().totals;
    totals.iter().filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn events(list: &[Event]) -> EventSet {
    EventSet::of(list)
}
