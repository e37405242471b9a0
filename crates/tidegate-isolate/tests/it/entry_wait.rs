//! Entries that wait for a permit, for handlers on an event loop.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{ManualClock, Parker};
use tidegate_isolate::{
    BreakerMode, BreakerState, Cause, CommandError, Criticality, Entry, Event, Isolation,
    Partitions, PendingEntry, PermitConfig, QueueDiscipline, Rejection, RequestContext,
};
use tidegate_loop::{EventLoop, Quiet};
use tidegate_testkit::{Counter, DropCount, until};

use crate::steps::Steps;
use crate::support::{
    Builder, Numbers, SECOND, alone, builder, counted, failed, isolated, made, poll_by, poll_once,
    pool_of, set, still, touchy, waiting,
};

type Admitted = Result<Entry, CommandError<&'static str>>;

/// What the closures of the calls have received, with the number of each call.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(u32, Admitted)>>>);

impl Received {
    fn closure(&self, number: u32) -> impl FnOnce(Admitted) + Send + use<> {
        let all = self.clone();
        move |admitted| all.0.lock().unwrap().push((number, admitted))
    }

    fn take(&self) -> Vec<(u32, Admitted)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The numbers of the calls that were admitted. Their entries are dropped.
    fn admitted(&self) -> Vec<u32> {
        let all = self.take().into_iter();
        all.filter_map(|(number, admitted)| admitted.ok().map(|_| number))
            .collect()
    }

    /// The only cause that was received.
    fn cause(&self) -> Cause<&'static str> {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "one closure was called");
        let (_, admitted) = all.remove(0);
        admitted.unwrap_err().cause().clone()
    }
}

/// One permit, for which calls may wait for a second.
fn one_permit(command: Builder) -> Builder {
    command.permits(waiting(1, SECOND)).timeout(SECOND * 9)
}

/// Returns a command with one permit, an executor, and what its closures receive.
fn narrow() -> (ManualClock, Isolation, Numbers, Arc<Steps>, Received) {
    let (clock, isolation, command) = alone(one_permit);
    (clock, isolation, command, Steps::new(), Received::default())
}

/// Makes a call that waits.
fn wait(command: &Numbers, home: &Arc<Steps>, received: &Received, number: u32) -> PendingEntry {
    let pending = command.admit_or_wait(&home.home(), received.closure(number));
    assert!(pending.is_pending());
    pending
}

#[test]
fn a_free_permit_is_received_at_once_on_the_executor_and_later_from_elsewhere() {
    let (_clock, _isolation, command, home, received) = narrow();
    let executor = home.home();
    let pending = home.enter(|| command.admit_or_wait(&executor, received.closure(1)));
    assert!(!pending.is_pending());
    assert_eq!((received.admitted(), home.received()), (vec![1], 0));
    let pending = wait(&command, &home, &received, 2);
    assert_eq!((command.snapshot().active, home.received()), (1, 1));
    assert!(received.take().is_empty(), "not on this thread");
    assert_eq!(home.run(), 1);
    assert!(!pending.is_pending());
    drop(pending);
    let (number, entry) = received.take().remove(0);
    assert!(number == 2 && entry.unwrap().verdict(true));
}

#[test]
fn a_permit_that_becomes_free_goes_to_the_call_that_waits() {
    let (clock, _isolation, command, home, received) = narrow();
    let first = command.admit().unwrap();
    let pending = wait(&command, &home, &received, 1);
    assert_eq!((command.snapshot().waiting, home.received()), (1, 0));
    clock.advance(Duration::from_millis(300));
    assert!(first.verdict(true));
    assert_eq!(home.received(), 0, "the first still streams");
    drop(first);
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 1));
    assert!(command.admit().unwrap_err().is_rejected(), "it is taken");
    clock.advance(Duration::from_millis(100));
    assert_eq!((home.run(), pending.is_pending()), (1, false));
    let (_, entry) = received.take().remove(0);
    let entry = entry.unwrap();
    assert_eq!(
        entry.deadline(),
        Some(clock.now() + SECOND * 9 - SECOND * 4 / 10)
    );
    clock.advance(Duration::from_millis(200));
    assert!(entry.verdict(true));
    let latencies = command.snapshot().latencies;
    let close = |time: Duration, ms: f64| (time.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.05;
    assert!(close(latencies.wait.max(), 400.0), "{latencies:?}");
    assert!(close(latencies.total.max(), 600.0), "{latencies:?}");
    drop(entry);
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn calls_that_wait_are_served_in_the_order_of_the_queue() {
    let (clock, isolation) = still();
    let (home, received) = (Steps::new(), Received::default());
    let after = Duration::from_millis(5);
    let disciplines = [
        (QueueDiscipline::Fifo, [0, 1, 2]),
        (QueueDiscipline::LifoUnderOverload { after }, [2, 1, 0]),
    ];
    for (key, (discipline, order)) in disciplines.into_iter().enumerate() {
        let permits = PermitConfig {
            discipline,
            ..waiting(1, SECOND)
        };
        let command = made(builder(&key.to_string()).permits(permits), &isolation);
        let first = command.admit().unwrap();
        let _pending: Vec<_> = (0..3)
            .map(|number| wait(&command, &home, &received, number))
            .collect();
        clock.advance(after * 2);
        drop(first);
        for number in order {
            assert_eq!((home.run(), received.admitted()), (1, vec![number]));
        }
    }
}

#[test]
fn a_critical_call_waits_for_permits_that_are_reserved_for_it() {
    let (home, received) = (Steps::new(), Received::default());
    let permits = PermitConfig {
        partitions: Partitions {
            critical: 0.5,
            ..Partitions::default()
        },
        ..waiting(2, SECOND)
    };
    let (_clock, _isolation, command) = alone(|c| c.permits(permits));
    let critical = |received: &Received| {
        let call = command.call().criticality(Criticality::Critical);
        call.admit_or_wait(&home.home(), received.closure(9))
    };
    let held = command.admit().unwrap();
    let normal = wait(&command, &home, &received, 1);
    let first = critical(&received);
    assert_eq!(
        (home.run(), received.take().len()),
        (1, 1),
        "it is reserved"
    );
    drop((first, held));
    assert_eq!((home.run(), received.admitted()), (1, vec![1]));
    drop(normal);
}

#[test]
fn a_call_that_leaves_frees_its_place_at_once() {
    let (home, received) = (Steps::new(), Received::default());
    let permits = PermitConfig {
        max_waiting: 1,
        ..waiting(1, SECOND)
    };
    let (_clock, _isolation, command) = alone(|c| c.permits(permits));
    let first = command.admit().unwrap();
    let (drops, dropped) = (Counter::new(), Received::default());
    let (guard, closure) = (DropCount::new(&drops), dropped.closure(1));
    let pending = command.admit_or_wait(&home.home(), move |admitted| {
        drop(guard);
        closure(admitted);
    });
    let full = home.enter(|| command.admit_or_wait(&home.home(), received.closure(2)));
    assert_eq!(received.cause(), Cause::Rejected(Rejection::Permits));
    drop((full, pending));
    assert_eq!((command.snapshot().waiting, drops.count()), (0, 1));
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
    let pending = wait(&command, &home, &received, 3);
    drop(first);
    assert_eq!((home.run(), received.admitted()), (1, vec![3]));
    drop(pending);
    assert!(dropped.take().is_empty());
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_call_that_leaves_gives_a_permit_on_its_way_to_the_next_one() {
    let (_clock, _isolation, command, home, received) = narrow();
    let first = command.admit().unwrap();
    let [leaves, stays] = [1, 2].map(|number| wait(&command, &home, &received, number));
    drop(first);
    assert_eq!(home.received(), 1, "the permit is on its way");
    drop(leaves);
    assert_eq!(home.received(), 2, "and then on its way to the next one");
    home.run();
    assert_eq!(received.admitted(), [2]);
    drop(stays);
    assert_eq!(counted(&command).len(), 1, "{:?}", counted(&command));
    assert_eq!(
        command.snapshot().totals[Event::Cancelled],
        3,
        "two were dropped by the test"
    );
    assert_eq!((command.snapshot().active, home.run()), (0, 0));
}

#[test]
fn a_call_that_leaves_after_its_admission_drops_the_entry() {
    let (_clock, _isolation, command, home, received) = narrow();
    let pending = wait(&command, &home, &received, 1);
    assert_eq!(command.snapshot().active, 1);
    drop(pending);
    assert_eq!(command.snapshot().active, 0, "at once");
    assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    home.run();
    assert!(received.take().is_empty());
}

#[test]
fn a_detached_call_waits_without_a_handle() {
    let (_clock, _isolation, command, home, received) = narrow();
    let first = command.admit().unwrap();
    wait(&command, &home, &received, 1).detach();
    drop(first);
    assert_eq!((home.run(), received.admitted()), (1, vec![1]));
}

#[test]
fn an_executor_that_has_ended_gives_the_permit_to_the_next_call() {
    let (_clock, _isolation, command, _, received) = narrow();
    let [ended, ends, lives] = [(); 3].map(|()| Steps::new());
    let first = command.admit().unwrap();
    let drops = Counter::new();
    let guard = DropCount::new(&drops);
    let on_ended = command.admit_or_wait(&ended.home(), move |_| drop(guard));
    let on_ends = wait(&command, &ends, &received, 2);
    let on_lives = wait(&command, &lives, &received, 3);
    ended.close();
    drop(first);
    drops.wait_for(1);
    assert_eq!((on_ended.is_pending(), ends.received()), (false, 1));
    // The next one ends with the permit on its way.
    ends.close();
    assert_eq!((on_ends.is_pending(), lives.received()), (false, 1));
    lives.run();
    assert_eq!(received.admitted(), [3]);
    let totals = || command.snapshot().totals[Event::Cancelled];
    until("both calls are counted", || totals() == 4);
    drop((on_ended, on_ends, on_lives));
    assert_eq!((totals(), command.snapshot().active), (4, 0));
}

#[test]
fn a_call_on_an_executor_that_has_ended_gives_its_permit_back() {
    let (_clock, _isolation, command, home, received) = narrow();
    home.close();
    let pending = command.admit_or_wait(&home.home(), received.closure(1));
    assert!(!pending.is_pending());
    until("the permit is back", || command.snapshot().active == 0);
    until("it is counted", || {
        counted(&command) == [(Event::Cancelled, 1)]
    });
    assert!(received.take().is_empty());
}

#[test]
fn a_wait_ends_at_its_time() {
    let (clock, _isolation, command, home, received) = narrow();
    let short = command.call().timeout(SECOND / 2);
    let first = command.admit().unwrap();
    let by_deadline = short.admit_or_wait(&home.home(), received.closure(1));
    let by_queue = wait(&command, &home, &received, 2);
    clock.advance(SECOND / 2);
    home.await_signals(1);
    assert_eq!(command.snapshot().waiting, 1, "its place is free at once");
    assert_eq!(home.run(), 1);
    assert_eq!(received.cause(), Cause::TimedOut(SECOND / 2));
    assert!(!by_deadline.is_pending() && by_queue.is_pending());
    clock.advance(SECOND / 2);
    home.await_signals(1);
    assert_eq!((command.snapshot().waiting, home.run()), (0, 1));
    assert_eq!(received.cause(), Cause::Rejected(Rejection::Permits));
    let ends = [Event::Timeout, Event::PermitsRejected];
    assert_eq!(ends.map(|end| command.snapshot().totals[end]), [1, 1]);
    drop((first, by_deadline, by_queue));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn an_executor_that_is_busy_until_the_deadline_gives_the_permit_back() {
    let (clock, _isolation, command, home, received) = narrow();
    let first = command.admit().unwrap();
    let call = command.call().timeout(SECOND / 2);
    let pending = call.admit_or_wait(&home.home(), received.closure(1));
    drop(first);
    assert_eq!((home.received(), command.snapshot().active), (1, 1));
    clock.advance(SECOND / 2);
    home.run();
    assert_eq!(received.cause(), Cause::TimedOut(SECOND / 2));
    assert_eq!(command.snapshot().active, 0);
    drop(pending);
}

#[test]
fn what_denies_a_call_is_received_too() {
    let (_clock, isolation) = still();
    let (home, received) = (Steps::new(), Received::default());
    let threads = builder("threads").threads(pool_of(1, 1)).build(&isolation);
    let no_wait = builder("no wait").permits(1).build(&isolation).unwrap();
    let open = builder("open").breaker(touchy()).build(&isolation).unwrap();
    assert!(open.admit().unwrap().verdict(false));
    let held = no_wait.admit().unwrap();
    let cause_of = |command: &Numbers| {
        let pending = command.admit_or_wait(&home.home(), received.closure(1));
        assert_eq!(home.run(), 1);
        drop(pending);
        received.cause()
    };
    assert_eq!(
        cause_of(&threads.unwrap()),
        Cause::Rejected(Rejection::InPlace)
    );
    assert_eq!(cause_of(&no_wait), Cause::Rejected(Rejection::Permits));
    assert!(matches!(cause_of(&open), Cause::ShortCircuited(Some(_))));
    drop(held);
}

#[test]
fn a_probe_that_leaves_the_queue_opens_the_breaker_again_unless_it_is_abandoned() {
    let (home, received) = (Steps::new(), Received::default());
    let (clock, _isolation, command) =
        alone(|c| c.permits(waiting(2, SECOND)).breaker(touchy()).no_timeout());
    let [fails, holds] = [(); 2].map(|()| command.admit().unwrap());
    command.configure(|c| c.permits.limit = 1).unwrap();
    assert!(fails.verdict(false));
    drop(fails);
    clock.advance(Duration::from_millis(5_001));
    let probe = wait(&command, &home, &received, 1);
    assert_eq!(command.snapshot().breaker, BreakerState::HalfOpen);
    probe.abandon();
    assert_eq!(command.snapshot().breaker, BreakerState::HalfOpen);
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
    let next = wait(&command, &home, &received, 2);
    drop(next);
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    drop(holds);
}

/// Two permits, both of which are held, and a breaker that opens with the first failure.
fn two_permits() -> (ManualClock, Isolation, Numbers, [Entry; 2]) {
    let with = |c: Builder| c.permits(waiting(2, SECOND)).breaker(touchy()).no_timeout();
    let (clock, isolation, command) = alone(with);
    let held = [(); 2].map(|()| command.admit().unwrap());
    (clock, isolation, command, held)
}

#[test]
fn calls_that_wait_leave_when_the_breaker_opens() {
    let (_clock, _isolation, command, [fails, holds]) = two_permits();
    let (home, received, parker) = (Steps::new(), Received::default(), Parker::new());
    let pending = wait(&command, &home, &received, 1);
    let mut future = pin!(command.run_async(|_| async { Ok(1) }));
    assert!(poll_by(&parker, future.as_mut()).is_pending());
    let is_denied = |error: CommandError<&'static str>| {
        let rest = Some(SECOND * 5 + Duration::from_nanos(1));
        assert_eq!(error.cause(), &Cause::ShortCircuited(rest));
    };
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| command.run(|_| Ok(1)));
        until("all three wait", || command.snapshot().waiting == 3);
        assert!(fails.verdict(false), "its permit is still held");
        is_denied(blocked.join().unwrap().unwrap_err());
    });
    assert_eq!(home.run(), 1);
    is_denied(received.take().remove(0).1.unwrap_err());
    assert!(parker.is_notified());
    is_denied(failed(
        poll_by(&parker, future.as_mut()),
        "the breaker is open",
    ));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 2));
    assert_eq!(snapshot.totals[Event::ShortCircuited], 3);
    drop((pending, fails, holds));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_permit_on_its_way_goes_back_when_the_breaker_opens() {
    let (_clock, _isolation, command, [fails, ends]) = two_permits();
    let (home, received) = (Steps::new(), Received::default());
    let pending = wait(&command, &home, &received, 1);
    let mut future = pin!(command.run_async(|_| async { Ok(1) }));
    assert!(poll_once(future.as_mut()).is_pending());
    assert!(ends.verdict(true));
    drop(ends);
    assert_eq!(home.received(), 1, "the permit is on its way");
    assert!(fails.verdict(false));
    drop(fails);
    assert_eq!(command.snapshot().active, 2, "both are");
    assert_eq!(home.run(), 1);
    assert!(matches!(received.cause(), Cause::ShortCircuited(Some(_))));
    let error = failed(poll_once(future.as_mut()), "the breaker is open");
    assert!(error.is_short_circuited());
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 0));
    drop(pending);
}

#[test]
fn calls_that_wait_stay_unless_the_breaker_denies_calls() {
    let (_clock, _isolation, command, [fails, holds]) = two_permits();
    let (home, received) = (Steps::new(), Received::default());
    set(&command, |c| c.breaker.mode = BreakerMode::MetricsOnly);
    let stays = wait(&command, &home, &received, 1);
    assert!(fails.verdict(false));
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    assert_eq!((home.received(), command.snapshot().waiting), (0, 1));
    drop(fails);
    assert_eq!((home.run(), received.admitted()), (1, vec![1]));
    drop((stays, holds));
}

#[test]
fn calls_that_wait_leave_when_an_open_breaker_denies_calls_again() {
    for mode in [BreakerMode::MetricsOnly, BreakerMode::ForcedClosed] {
        let (_clock, _isolation, command, [fails, holds]) = two_permits();
        let (home, received) = (Steps::new(), Received::default());
        set(&command, |c| {
            (c.breaker.mode, c.permits.limit) = (mode, 1);
        });
        assert!(fails.verdict(false));
        let pending = wait(&command, &home, &received, 1);
        set(&command, |c| c.breaker.mode = BreakerMode::Normal);
        home.await_signals(1);
        assert_eq!(home.run(), 1);
        assert!(matches!(received.cause(), Cause::ShortCircuited(Some(_))));
        drop((pending, fails, holds));
        assert_eq!(command.snapshot().active, 0);
    }
}

#[test]
fn calls_that_wait_leave_when_the_breaker_is_forced_open() {
    let (clock, _isolation, command, held) = two_permits();
    let (home, received) = (Steps::new(), Received::default());
    let pending = wait(&command, &home, &received, 1);
    set(&command, |c| c.breaker.mode = BreakerMode::ForcedOpen);
    home.await_signals(1);
    assert_eq!(home.run(), 1);
    assert_eq!(received.cause(), Cause::ShortCircuited(None));
    // A probe that waits is denied too, and frees its slot.
    set(&command, |c| c.breaker.mode = BreakerMode::Normal);
    assert!(held[0].verdict(false));
    clock.advance(SECOND * 6);
    let probe = wait(&command, &home, &received, 2);
    assert_eq!(command.snapshot().breaker, BreakerState::HalfOpen);
    set(&command, |c| c.breaker.mode = BreakerMode::ForcedOpen);
    home.await_signals(1);
    assert_eq!(home.run(), 1);
    assert_eq!(received.cause(), Cause::ShortCircuited(None));
    set(&command, |c| c.breaker.mode = BreakerMode::Normal);
    drop(held);
    let next = command.admit().unwrap();
    assert!(next.is_probe() && next.verdict(true));
    assert_eq!(command.snapshot().breaker, BreakerState::Closed);
    drop((pending, probe));
}

#[test]
fn a_stop_ends_all_waits() {
    let (_clock, isolation, command, home, received) = narrow();
    let first = command.admit().unwrap();
    let pending = wait(&command, &home, &received, 1);
    isolation.shutdown_now();
    home.await_signals(1);
    assert_eq!(home.run(), 1);
    assert_eq!(received.cause(), Cause::Rejected(Rejection::Closed));
    let late = command.admit_or_wait(&home.home(), received.closure(2));
    assert_eq!(home.run(), 1);
    assert_eq!(received.cause(), Cause::Rejected(Rejection::Closed));
    drop((first, pending, late));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn the_closure_runs_in_the_request_of_the_call() {
    let (_clock, _isolation, command, home, _) = narrow();
    let request = RequestContext::new();
    let seen = Arc::new(Mutex::new(None));
    let first = command.admit().unwrap();
    let entered = request.enter();
    let own = Arc::clone(&seen);
    let pending = command.admit_or_wait(&home.home(), move |admitted| {
        assert!(admitted.unwrap().verdict(true));
        *own.lock().unwrap() = RequestContext::current().map(|context| context.log().len());
    });
    drop((entered, first));
    home.run();
    assert_eq!(*seen.lock().unwrap(), Some(1), "the log of that request");
    assert_eq!(request.log().len(), 1);
    drop(pending);
}

#[test]
fn a_closure_that_panics_is_reported_and_gives_its_permit_back() {
    let reports = Counter::new();
    let hook = reports.clone();
    let isolation = isolated(|i| {
        i.on_unhandled(move |_, _| {
            hook.hit();
        })
    });
    let (command, home) = (made(one_permit(builder("a")), &isolation), Steps::new());
    for on_home in [true, false] {
        let call = || command.admit_or_wait(&home.home(), |_entry| panic!("on purpose"));
        let pending = if on_home { home.enter(call) } else { call() };
        home.run();
        assert!(!pending.is_pending());
        assert_eq!(command.snapshot().active, 0);
    }
    // The hook runs on a thread of its own.
    reports.wait_for(2);
    assert_eq!(reports.count(), 2);
}

#[test]
fn loops_pass_one_permit_around_until_they_end() {
    const CALLS: u64 = 500;
    let isolation = Isolation::builder().build().unwrap();
    let permits = PermitConfig {
        max_wait: SECOND * 60,
        max_waiting: 10_000,
        ..PermitConfig::from(1)
    };
    let command = made(builder("a").permits(permits).no_timeout(), &isolation);
    let loops: Vec<_> = ["one", "two", "three"]
        .map(|name| EventLoop::builder(name).build().unwrap())
        .into();
    let (ended, inside) = (Counter::new(), Arc::new(Mutex::new(())));
    let mut pending = Vec::new();
    for call in 0..CALLS {
        let at = &loops[call as usize % loops.len()];
        let guard = DropCount::new(&ended);
        let (inside, home) = (Arc::clone(&inside), at.executor());
        pending.push(command.admit_or_wait(&home, move |admitted| {
            let _guard = guard;
            if let Ok(entry) = admitted {
                let only = inside.try_lock().expect("one at a time");
                assert!(entry.verdict(true));
                drop(only);
            }
        }));
        if call % 7 == 3 {
            let at = call as usize % pending.len();
            drop(pending.swap_remove(at));
        }
        if call == CALLS / 2 {
            drop(loops[0].shutdown(Quiet::none(SECOND)));
        }
    }
    ended.wait_for(CALLS);
    until("all permits are back", || command.snapshot().active == 0);
    drop(pending);
    until("each call ends once", || {
        let totals = command.snapshot().totals;
        totals[Event::Success] + totals[Event::Cancelled] == CALLS
    });
    let snapshot = command.snapshot();
    assert_eq!(
        (snapshot.waiting, snapshot.active, snapshot.peak),
        (0, 0, 1)
    );
}
