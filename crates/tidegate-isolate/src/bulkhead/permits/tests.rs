//! Limits, reserved permits and waiting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use tidegate_core::permits::PermitRef;
use tidegate_core::{Clock, ManualClock};

use super::*;
use crate::{Criticality, Partitions, QueueDiscipline, Rejection};

fn waiting(limit: usize) -> PermitConfig {
    PermitConfig {
        limit,
        max_wait: Duration::from_millis(10),
        ..PermitConfig::default()
    }
}

#[test]
fn what_matters_most_is_refused_last() {
    let gate = Gate::new(&PermitConfig {
        limit: 4,
        partitions: Partitions {
            normal: 0.25,
            high: 0.25,
            critical: 0.25,
        },
        ..PermitConfig::default()
    });
    let mut held = Vec::new();
    for criticality in [
        Criticality::Sheddable,
        Criticality::Normal,
        Criticality::High,
        Criticality::Critical,
    ] {
        held.push(gate.try_enter(criticality).expect("its share is free"));
        assert!(gate.try_enter(criticality).is_none(), "{criticality:?}");
    }
    assert_eq!(gate.held(), 4);
}

#[test]
fn a_lower_limit_acts_at_once_and_takes_nothing_back() {
    let gate = Gate::new(&PermitConfig::from(2));
    let held = [
        gate.try_enter_owned(Criticality::Normal),
        gate.try_enter_owned(Criticality::Normal),
    ];
    gate.configure(&PermitConfig::from(1), 0);
    assert_eq!((gate.held(), gate.limit()), (2, 1));
    assert!(gate.try_enter(Criticality::Critical).is_none());
    drop(held);
    assert!(gate.try_enter(Criticality::Normal).is_some());
}

#[test]
fn a_reserved_permit_goes_to_a_waiter_that_may_have_it() {
    let gate = Gate::new(&PermitConfig {
        partitions: Partitions {
            critical: 0.5,
            ..Partitions::default()
        },
        ..waiting(2)
    });
    let _normal = gate.try_enter(Criticality::Normal).expect("it is free");
    let critical = gate.try_enter(Criticality::Critical).expect("it is free");
    let wait = |criticality| gate.enqueue_waiter(0, criticality, u64::MAX, Waker::noop());
    let [first, second, third] = [
        Criticality::Sheddable,
        Criticality::Critical,
        Criticality::Critical,
    ]
    .map(|criticality| wait(criticality).expect("there is room"));
    critical.forget();
    gate.give_back(|| 0);
    let served = |place| gate.poll_waiter(place, 0, Waker::noop());
    let second = served(&second).expect("it need not wait for the first");
    assert!(second.is_ok());
    assert!(served(&first).is_none() && served(&third).is_none());
    drop(second);
    gate.serve_waiters(0);
    assert!(served(&third).is_some_and(|permit| permit.is_ok()));
    gate.give_up(&first);
    assert_eq!(gate.waiting(), 0);
}

#[test]
fn a_full_queue_turns_away_the_least_critical_call_for_a_more_critical_one() {
    use Criticality::{Critical, High, Normal, Sheddable};
    let gate = Gate::new(&PermitConfig {
        max_waiting: 2,
        ..waiting(1)
    });
    let held = gate.try_enter(Normal).expect("it is free");
    let wait = |criticality| gate.enqueue_waiter(0, criticality, u64::MAX, Waker::noop());
    let poll = |place| gate.poll_waiter(place, 0, Waker::noop());
    let [old, new] = [Normal, Normal].map(|one| wait(one).expect("there is room"));
    for criticality in [Sheddable, Normal] {
        assert_eq!(wait(criticality).err(), Some(Rejection::Permits));
    }
    let high = wait(High).expect("the newest of the others makes room");
    assert_eq!(gate.waiting(), 2);
    assert_eq!(poll(&new).map(|end| end.is_ok()), Some(false));
    assert!(poll(&old).is_none() && poll(&high).is_none());
    gate.give_up(&old);
    let shed = wait(Sheddable).expect("there is room");
    let [normal, critical] = [Normal, Critical].map(wait);
    let (normal, critical) = (normal.expect("less critical"), critical.expect("too"));
    assert!(wait(High).is_err(), "those that wait are as critical");
    for displaced in [&shed, &normal] {
        gate.give_up(displaced);
    }
    assert_eq!(gate.waiting(), 2);
    drop(held);
    for place in [&high, &critical] {
        gate.serve_waiters(0);
        assert_eq!(poll(place).map(|end| end.is_ok()), Some(true));
    }
    assert_eq!((gate.held(), gate.waiting()), (0, 0));
}

/// Passes one permit around: a call comes each 5 ms, and one ends each 20 ms. Returns when each call that
/// waited has ended its wait, and whether it was served.
fn pass_around(gate: &Gate) -> Vec<(u64, u64, bool)> {
    let (mut waiting, mut ended) = (Vec::new(), Vec::new());
    let first = gate.try_enter(Criticality::Normal);
    first.expect("it is free").forget();
    for call in 0..90 {
        let now = call * 5_000_000;
        let place = gate.enqueue_waiter(now, Criticality::Normal, u64::MAX, Waker::noop());
        waiting.push((call, place.expect("there is room")));
        if call % 4 == 3 {
            gate.give_back(|| now);
        }
        waiting.retain(|(number, place)| {
            let outcome = gate.poll_waiter(place, now, Waker::noop());
            let Some(outcome) = outcome else { return true };
            ended.push((now, *number, outcome.map(PermitRef::forget).is_ok()));
            false
        });
    }
    ended
}

#[test]
fn a_discipline_does_the_same_with_reserved_permits() {
    let after = Duration::from_millis(5);
    let critical = Partitions {
        critical: 0.5,
        ..Partitions::default()
    };
    for (discipline, turns_away) in [
        (QueueDiscipline::Fifo, false),
        (QueueDiscipline::LifoUnderOverload { after }, false),
        (QueueDiscipline::codel(), true),
    ] {
        let [plain, reserved] = [(1, Partitions::default()), (2, critical)].map(|parts| {
            let (limit, partitions) = parts;
            pass_around(&Gate::new(&PermitConfig {
                limit,
                max_wait: Duration::from_secs(9),
                discipline,
                partitions,
                ..PermitConfig::default()
            }))
        });
        assert_eq!(plain, reserved, "{discipline:?}");
        let turned_away = plain.iter().any(|(.., served)| !served);
        assert_eq!(turned_away, turns_away, "{discipline:?}");
    }
}

#[test]
fn a_waiter_gets_the_permit_that_is_given_back() {
    let manual = ManualClock::new();
    let clock = Clock::from(&manual);
    let gate = Gate::new(&waiting(1));
    let first = gate.try_enter(Criticality::Normal).expect("it is free");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            gate.wait(&clock, Criticality::Normal, u64::MAX, |_| true)
                .is_ok()
        });
        manual.await_sleepers(1);
        assert_eq!(gate.waiting(), 1);
        first.forget();
        gate.give_back(|| 0);
        assert!(waiter.join().expect("it does not panic"));
    });
    assert_eq!((gate.held(), gate.waiting()), (0, 0));
}

#[test]
fn a_raised_limit_serves_waiters() {
    let gate = Gate::new(&waiting(1));
    let _first = gate.try_enter(Criticality::Normal).expect("it is free");
    let place = gate.enqueue_waiter(0, Criticality::Normal, u64::MAX, Waker::noop());
    let place = place.expect("there is room to wait");
    assert!(gate.poll_waiter(&place, 0, Waker::noop()).is_none());
    gate.configure(&waiting(2), 0);
    gate.serve_waiters(0);
    let served = gate.poll_waiter(&place, 0, Waker::noop());
    assert!(matches!(served, Some(Ok(_))));
}

#[test]
fn waiting_ends_with_its_time_and_with_its_room() {
    let manual = ManualClock::new();
    let clock = Clock::from(&manual);
    let gate = Gate::new(&PermitConfig {
        max_waiting: 1,
        ..waiting(1)
    });
    let _first = gate.try_enter(Criticality::Normal);
    let full = NoPermit::Refused(Rejection::Permits);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            gate.wait(&clock, Criticality::Normal, u64::MAX, |_| true)
                .err()
        });
        manual.await_sleepers(1);
        let second = gate.wait(&clock, Criticality::Normal, u64::MAX, |_| true);
        assert_eq!(second.err(), Some(full), "one may wait");
        manual.advance(Duration::from_millis(10));
        assert_eq!(waiter.join().expect("it does not panic"), Some(full));
    });
    assert_eq!((gate.held(), gate.waiting()), (1, 0));
    // The deadline of a call may be the earlier one, or the same.
    for (deadline, late) in [(9, true), (10, true), (11, false)] {
        let (start, ms) = (clock.nanos(), 1_000_000);
        let until = start + deadline * ms;
        let place = gate.enqueue_waiter(start, Criticality::Normal, until, Waker::noop());
        let place = place.expect("there is room");
        let answer = gate.poll_waiter(&place, start + 10 * ms, Waker::noop());
        let expected = if late { NoPermit::Late } else { full };
        let is_expected = |end: Result<_, NoPermit>| end.map(drop) == Err(expected);
        assert!(answer.is_some_and(is_expected), "{deadline} ms");
    }
}

#[test]
fn a_thread_that_must_not_block_is_refused_instead() {
    let gate = Gate::new(&waiting(1));
    let _first = gate.try_enter(Criticality::Normal);
    let refused = tidegate_core::Blocking::forbid(|| {
        gate.wait(&Clock::system(), Criticality::Normal, u64::MAX, |_| true)
            .err()
    });
    assert_eq!(refused, Some(NoPermit::Refused(Rejection::Waiting)));
}

#[test]
fn no_permit_is_lost_between_waiters_and_ending_calls() {
    let manual = ManualClock::new();
    let clock = Clock::from(&manual);
    let gate = Gate::new(&PermitConfig {
        max_wait: Duration::from_secs(1),
        ..waiting(2)
    });
    let (most, now) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let permit = gate.try_enter(Criticality::Normal);
                    let permit = match permit {
                        Some(permit) => Ok(permit),
                        None => gate.wait(&clock, Criticality::Normal, u64::MAX, |_| true),
                    };
                    let permit = permit.expect("time stands still");
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    now.fetch_sub(1, Ordering::SeqCst);
                    permit.forget();
                    gate.give_back(|| 0);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert_eq!((gate.held(), gate.waiting()), (0, 0));
}

#[test]
fn an_adaptive_limit_moves_the_permits() {
    let gate_limit = Some(AdaptiveLimit {
        window: None,
        ..AdaptiveLimit::aimd()
    });
    let gate = Gate::new(&PermitConfig {
        adaptive: gate_limit.clone(),
        ..PermitConfig::default()
    });
    let _held: Vec<_> = (0..20)
        .map(|_| gate.try_enter(Criticality::Normal))
        .collect();
    assert_eq!(gate.limit(), 20);
    gate.sample(0, 1_000_000, false);
    assert_eq!(gate.limit(), 21);
    let other = PermitConfig {
        limit: 3,
        adaptive: gate_limit,
        ..PermitConfig::default()
    };
    gate.configure(&other, 0);
    gate.serve_waiters(0);
    assert_eq!(gate.limit(), 21, "the latency decides, not the setting");
}
