//! Calls that succeed at once: with permits alone, and with all guards of a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_isolate::{Command, Isolation, Permits};

use super::peers::{Resilient, Stack, call, plain_bulkhead};
use super::{
    CHEAP, Failure, LIMIT, TIMEOUT, by_two, each, heading, in_runtime, isolation, runtime, seen,
    work,
};
use crate::report::{Role, Table};
use crate::rounds::{self, Settings};

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    vec![
        permits(settings),
        guarded(settings),
        guarded_by_two(settings),
    ]
}

fn permits(settings: &Settings) -> Table {
    let ours = Permits::new(LIMIT);
    let tokio = tokio::sync::Semaphore::new(LIMIT);
    let bare = AtomicUsize::new(0);
    let mut tower = tower::limit::ConcurrencyLimit::new(
        tower::service_fn(|n: u64| std::future::ready(work(n))),
        LIMIT,
    );
    let mut bulkhead = plain_bulkhead(LIMIT);
    let lineup = vec![
        each("tidegate Permits", Role::Ours, move |n| {
            let held = ours.try_borrow().expect("no other thread holds one");
            seen(work(n));
            drop(held);
        }),
        each("tokio Semaphore try_acquire", Role::Peer, move |n| {
            let held = tokio.try_acquire().expect("no other thread holds one");
            seen(work(n));
            drop(held);
        }),
        each("tower ConcurrencyLimit", Role::Peer, move |n| {
            seen(call(&mut tower, n));
        }),
        each("tower-resilience Bulkhead", Role::Peer, move |n| {
            seen(call(&mut bulkhead, n));
        }),
        each("two bare atomics", Role::Floor, move |n| {
            bare.fetch_add(1, Ordering::Acquire);
            seen(work(n));
            bare.fetch_sub(1, Ordering::Release);
        }),
    ];
    let heading = heading("permits, one thread", &[("permits", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}

/// Creates a command with permits, breaker, timeout and metrics.
pub(super) fn full(isolation: &Isolation) -> Command<u64, Failure> {
    Command::builder("full")
        .group("bench")
        .permits(LIMIT)
        .timeout(TIMEOUT)
        .build(isolation)
        .expect("the settings agree with each other")
}

fn guarded(settings: &Settings) -> Table {
    let isolation = isolation();
    let all = full(&isolation);
    let stack = Stack::new();
    let resilient = Resilient::new();
    let lineup = vec![
        each("tidegate command, all of it", Role::Ours, move |n| {
            seen(all.run(move |_| work(n)));
        }),
        in_runtime("tower Timeout+ConcurrencyLimit+failsafe", move |count| {
            stack.calls(count)
        }),
        in_runtime(
            "tower Timeout+tower-resilience Bulkhead+CircuitBreaker",
            move |count| resilient.calls(count),
        ),
    ];
    let title = "permits+breaker+timeout+metrics, one thread";
    let heading = heading(title, &[("guarded_full", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}

fn guarded_by_two(settings: &Settings) -> Table {
    let isolation = isolation();
    let all = full(&isolation);
    let stack = Arc::new(Stack::new());
    let resilient = Arc::new(Resilient::new());
    let lineup = vec![
        by_two("tidegate command, all of it", Role::Ours, move |count| {
            for n in 0..count {
                seen(all.run(move |_| work(n)));
            }
        }),
        by_two(
            "tower Timeout+ConcurrencyLimit+failsafe",
            Role::Peer,
            move |count| {
                let runtime = runtime();
                let _entered = runtime.enter();
                stack.calls(count);
            },
        ),
        by_two(
            "tower Timeout+tower-resilience Bulkhead+CircuitBreaker",
            Role::Peer,
            move |count| {
                let runtime = runtime();
                let _entered = runtime.enter();
                resilient.calls(count);
            },
        ),
    ];
    let title = "permits+breaker+timeout+metrics, two threads";
    let heading = heading(title, &[("guarded_full_2threads", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}
