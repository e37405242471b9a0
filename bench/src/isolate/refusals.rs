//! Calls that are rejected because all permits are held.

use std::future::Future as _;
use std::task::{Context, Waker};

use tidegate_isolate::{BreakerConfig, BreakerMode, Command, Isolation};

use super::peers::{call, full_bulkhead, shed, shed_bulkhead};
use super::{CHEAP, Failure, each, heading, in_runtime, isolation, seen, work};
use crate::report::{Role, Table};
use crate::rounds::{self, Settings};

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    vec![rejection(settings)]
}

fn command(isolation: &Isolation, key: &str, breaker: BreakerConfig) -> Command<u64, Failure> {
    Command::builder(key)
        .group("bench")
        .permits(1)
        .breaker(breaker)
        .build(isolation)
        .expect("the settings agree with each other")
}

/// Creates a command whose only permit is held by a future that never ends.
fn busy(isolation: &Isolation, key: &str, breaker: BreakerConfig) -> impl FnMut(u64) + use<> {
    let busy = command(isolation, key, breaker);
    let mut held = Box::pin(busy.run_async(|_| std::future::pending()));
    let pending = held.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(pending.is_pending(), "it holds the permit");
    move |n| {
        let _held = &held;
        seen(busy.run(move |_| work(n)));
    }
}

fn rejection(settings: &Settings) -> Table {
    let isolation = isolation();
    // The peers have no breaker.
    let no_breaker = BreakerConfig {
        mode: BreakerMode::Disabled,
        ..BreakerConfig::default()
    };
    let mut shed = shed();
    let mut shed_bulkhead = shed_bulkhead();
    let mut bulkhead = full_bulkhead();
    let lineup = vec![
        each(
            "tidegate command, permits held",
            Role::Ours,
            busy(&isolation, "busy", no_breaker),
        ),
        each("tower LoadShed+ConcurrencyLimit", Role::Peer, move |n| {
            seen(call(&mut shed, n));
        }),
        each(
            "tower LoadShed+tower-resilience Bulkhead",
            Role::Peer,
            move |n| {
                seen(call(&mut shed_bulkhead, n));
            },
        ),
        in_runtime("tower-resilience Bulkhead", move |count| {
            for n in 0..count {
                seen(call(&mut bulkhead, n));
            }
        }),
    ];
    let heading = heading("a refusal", &[("rejection", Role::Peer)]);
    rounds::race(heading, CHEAP, lineup, settings)
}
