//! Calls that are not let through: all permits are held, or the breaker is open.

use std::future::Future as _;
use std::task::{Context, Waker};
use std::time::Duration;

use failsafe::CircuitBreaker as _;
use tidegate_isolate::{BreakerConfig, BreakerMode, BreakerWindow, Command, Isolation};

use super::peers::{call, full_bulkhead, open_breaker, shed, shed_bulkhead};
use super::{CHEAP, Failure, each, heading, in_runtime, isolation, seen, slow, work};
use crate::report::{Role, Table};
use crate::rounds::{self, Settings};

/// Longer than any run.
const LONG: Duration = Duration::from_secs(3600);

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    vec![rejection(settings), short_circuit(settings)]
}

fn command(isolation: &Isolation, key: &str, breaker: BreakerConfig) -> Command<u64, Failure> {
    Command::builder(key)
        .group("bench")
        .permits(1)
        .breaker(breaker)
        .build(isolation)
        .expect("the settings agree with each other")
}

/// A command whose one permit is held by a future that never ends.
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
    // As the peers have none.
    let no_breaker = BreakerConfig {
        mode: BreakerMode::Disabled,
        ..BreakerConfig::default()
    };
    // So many refusals would open it: then this would be a short circuit.
    let closed = BreakerConfig {
        mode: BreakerMode::ForcedClosed,
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
        slow(each(
            "tidegate command, and a breaker that hears of it",
            Role::Floor,
            busy(&isolation, "heard", closed),
        )),
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

fn short_circuit(settings: &Settings) -> Table {
    let isolation = isolation();
    let forced = command(
        &isolation,
        "forced",
        BreakerConfig {
            mode: BreakerMode::ForcedOpen,
            ..BreakerConfig::default()
        },
    );
    let open = command(
        &isolation,
        "open",
        BreakerConfig {
            window: BreakerWindow::Count(1),
            min_calls: 1,
            sleep: LONG,
            max_sleep: LONG,
            ..BreakerConfig::default()
        },
    );
    let failure = || Err(Failure::other("on purpose"));
    open.run(move |_| failure()).ok();
    let refused = open.run(work_once).expect_err("the failure has opened it");
    assert!(refused.is_short_circuited(), "{refused}");

    let policy =
        failsafe::failure_policy::consecutive_failures(1, failsafe::backoff::constant(LONG));
    let failsafe = failsafe::Config::new().failure_policy(policy).build();
    failsafe.call(failure).ok();
    assert!(!failsafe.is_call_permitted(), "the failure has opened it");
    let mut resilient = open_breaker(LONG);
    let lineup = vec![
        each("tidegate command, breaker open", Role::Ours, move |n| {
            seen(open.run(move |_| work(n)));
        }),
        each("tidegate command, forced open", Role::Floor, move |n| {
            seen(forced.run(move |_| work(n)));
        }),
        each("failsafe", Role::Peer, move |n| {
            seen(failsafe.call(|| work(n)));
        }),
        each("tower-resilience CircuitBreaker", Role::Peer, move |n| {
            seen(call(&mut resilient, n));
        }),
    ];
    let lineup = lineup.into_iter().map(slow).collect();
    rounds::race(heading("a short circuit", &[]), CHEAP, lineup, settings)
}

fn work_once(_token: &tidegate_core::CancelToken) -> Result<u64, Failure> {
    work(0)
}
