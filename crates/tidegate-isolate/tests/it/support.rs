//! Helpers that the tests share.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    Call, CallHandle, Cause, Command, CommandBuilder, CommandError, Event, EventSet, Isolation,
    PoolConfig, PoolSnapshot, Properties,
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
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    (clock, isolation)
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

/// Builds an isolation with properties that can be set.
pub(crate) fn with_properties() -> (Properties, Isolation) {
    let properties = Properties::new();
    let isolation = Isolation::builder().properties(properties.clone());
    (properties, isolation.build().unwrap())
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

pub(crate) fn made(builder: Builder, isolation: &Isolation) -> Numbers {
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

/// Returns the snapshot of the only pool.
pub(crate) fn pool(isolation: &Isolation) -> PoolSnapshot {
    isolation.pool_snapshots().remove(0)
}

/// Starts a call, waits until its work is running, and keeps it running until the gate opens.
pub(crate) fn hold(command: &Numbers, until: &Gate) -> Answer {
    let inside = Gate::new();
    let (mine, until) = (inside.clone(), until.clone());
    let answer = command.queue(move |_| {
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

/// Returns every event that was counted, with its count.
pub(crate) fn counted(command: &Numbers) -> Vec<(Event, u64)> {
    let totals = command.snapshot().totals;
    totals.iter().filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn events(list: &[Event]) -> EventSet {
    EventSet::of(list)
}
