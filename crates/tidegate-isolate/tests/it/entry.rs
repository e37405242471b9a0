//! Entries: calls that are admitted as values, and how they end.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{
    BreakerMode, CallStage, Cause, CommandSnapshot, Criticality, Entry, Event, Isolation, Key,
    Partitions, PermitConfig, Rejection, RequestContext, Verdict,
};
use tidegate_testkit::{Gate, model, until};

use crate::support::{
    Numbers, SECOND, alone, builder, counted, events, isolated, poll_once, pool_of, touchy, waiting,
};

/// The counts of the breaker and the latencies: failures, calls, latencies.
fn received(snapshot: &CommandSnapshot) -> (u64, u64, u64) {
    let window = &snapshot.window;
    let latencies = snapshot.latencies.total.count();
    (window.health_errors(), window.health_total(), latencies)
}

#[test]
fn a_verdict_feeds_breaker_and_latency_and_the_permit_stays_until_the_drop() {
    let (clock, _isolation, command) = alone(|c| c.permits(1));
    let entry = command.admit().unwrap();
    assert_eq!(command.snapshot().active, 1);
    clock.advance(Duration::from_millis(40));
    assert!(entry.verdict(Verdict::Success));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.peak), (1, 1), "it holds on");
    assert_eq!(received(&snapshot), (0, 1, 1));
    let took = snapshot.latencies.run.max().as_secs_f64() * 1e3;
    assert!((took - 40.0).abs() < 2.0, "{took}");
    assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected());
    drop(entry);
    assert_eq!(command.snapshot().active, 0);
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert_eq!(command.snapshot().totals[Event::Success], 2);
}

#[test]
fn a_bool_is_a_verdict() {
    let (_clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    assert!(command.admit().unwrap().verdict(true));
    assert!(command.admit().unwrap().verdict(false));
    assert_eq!(
        counted(&command),
        [(Event::Success, 1), (Event::Failure, 1)]
    );
    let error = command.admit().unwrap_err();
    assert!(error.is_short_circuited(), "the failure has opened it");
    assert!(error.retry_after().is_some(), "it has a retry time");
}

#[test]
fn only_the_first_verdict_counts() {
    let (_clock, _isolation, command) = alone(|c| c);
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true) && !entry.verdict(false) && !entry.verdict(true));
    drop(entry);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    let mut entry = command.admit().unwrap();
    assert!(entry.verdict_alone(true) && !entry.verdict_alone(false) && !entry.verdict(false));
    drop(entry);
    assert_eq!(counted(&command), [(Event::Success, 2)]);
    let entry = command.admit().unwrap();
    let first: Vec<bool> = std::thread::scope(|scope| {
        let give = |verdict: bool| {
            let entry = &entry;
            scope.spawn(move || entry.verdict(verdict))
        };
        let given = [true, false, true].map(give);
        given.map(|given| given.join().unwrap()).to_vec()
    });
    assert_eq!(first.iter().filter(|first| **first).count(), 1);
    drop(entry);
    assert_eq!(command.snapshot().latencies.total.count(), 3);
}

#[test]
fn an_entry_dropped_without_a_verdict_counts_as_cancelled_and_trips_its_token() {
    let (_clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    let entry = command.admit().unwrap();
    let token = entry.token().clone();
    let (inner, notified) = (command.clone(), Gate::new());
    let tell = notified.clone();
    let hook = token.on_cancel(move || {
        assert_eq!(inner.snapshot().active, 0, "the permit is back already");
        tell.open();
    });
    drop(entry);
    notified.wait();
    drop(hook);
    assert!(token.is_cancelled());
    assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    assert_eq!(received(&command.snapshot()), (0, 0, 1));
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "no breaker counted it");
}

/// The probe of a breaker that has slept.
fn probe(command: &Numbers, clock: &tidegate_core::ManualClock) -> Entry {
    let _ = command.run(|_| Err("down"));
    clock.advance(Duration::from_millis(5_001));
    let probe = command.admit().unwrap();
    assert!(command.admit().unwrap_err().is_short_circuited());
    probe
}

#[test]
fn a_probe_dropped_without_a_verdict_opens_the_breaker_again() {
    let (clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    drop(probe(&command, &clock));
    assert!(command.admit().unwrap_err().is_short_circuited());
    clock.advance(Duration::from_millis(5_001));
    assert!(command.admit().unwrap().verdict(true));
    assert!(!command.snapshot().is_open, "a probe that succeeds");
}

#[test]
fn an_ignored_probe_frees_its_place() {
    let (clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    let first = probe(&command, &clock);
    assert!(first.verdict(Verdict::Ignored));
    let second = command.admit().unwrap();
    assert!(second.verdict(Verdict::Success));
    assert!(!command.snapshot().is_open);
    assert_eq!(command.snapshot().totals[Event::BadRequest], 1);
}

#[test]
fn a_probe_whose_caller_leaves_frees_its_place() {
    let (clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    let first = probe(&command, &clock);
    assert!(first.is_probe());
    let token = first.token().clone();
    first.abandon();
    assert!(token.is_cancelled());
    assert_eq!(command.snapshot().active, 0);
    let second = command.admit().unwrap();
    assert!(second.is_probe());
    assert!(second.verdict(Verdict::Success));
    // A verdict stays.
    second.abandon();
    assert!(!command.snapshot().is_open);
    let plain = command.admit().unwrap();
    assert!(!plain.is_probe());
    plain.abandon();
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Cancelled], totals[Event::Success]), (2, 1));
    assert_eq!(totals[Event::BadRequest], 0);
}

#[test]
fn the_permit_of_a_caller_that_leaves_is_free_when_its_hooks_run() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let ends: [fn(Entry); 2] = [drop, Entry::abandon];
    for end in ends {
        let entry = command.admit().unwrap();
        let (next, admitted) = (command.clone(), Arc::new(AtomicBool::new(false)));
        let is_free = Arc::clone(&admitted);
        let hook = move || is_free.store(next.admit().is_ok(), Ordering::SeqCst);
        entry.token().on_cancel(hook).forget();
        end(entry);
        assert!(admitted.load(Ordering::SeqCst));
    }
}

#[test]
fn a_probe_that_times_out_opens_the_breaker_again() {
    let ends: [fn(Entry); 2] = [Entry::abandon, |late| assert!(!late.verdict(true))];
    for end in ends {
        let (clock, _isolation, command) = alone(|c| c.breaker(touchy()).timeout(SECOND));
        let late = probe(&command, &clock);
        clock.advance(SECOND);
        end(late);
        assert!(command.admit().unwrap_err().is_short_circuited());
        assert_eq!(command.snapshot().totals[Event::Timeout], 1);
        assert_eq!(command.snapshot().active, 0);
    }
}

#[test]
fn a_verdict_after_the_deadline_is_a_timeout() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    clock.advance(SECOND);
    assert!(entry.token().is_cancelled(), "the timer knows");
    assert!(!entry.verdict(true));
    drop(entry);
    assert_eq!(counted(&command), [(Event::Timeout, 1)]);
    assert_eq!(received(&command.snapshot()), (1, 1, 1));
    // Nothing wakes the timer of a call that begins too late for it: the end reads the clock.
    isolation.shutdown_now();
    let mut entry = command.admit().unwrap();
    clock.jump(SECOND);
    assert!(!entry.token().is_cancelled(), "no timer is left");
    assert!(!entry.verdict_alone(true));
    drop(entry);
    assert_eq!(counted(&command), [(Event::Timeout, 2)]);
    drop(command.admit().unwrap());
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_timeout_does_not_give_the_permit_back() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let entry = command.admit().unwrap();
    clock.advance(SECOND * 3);
    assert_eq!(command.snapshot().active, 1);
    let error = command.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
    drop(entry);
    assert!(command.admit().unwrap().verdict(true));
}

#[test]
fn a_verdict_ends_the_time() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true));
    clock.advance(SECOND * 2);
    isolation.shutdown_now();
    assert!(!entry.token().is_cancelled());
    drop(entry);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn an_entry_knows_its_deadline_and_its_token_is_tripped() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND * 9));
    let entry = command.call().timeout(SECOND).admit().unwrap();
    assert_eq!(entry.deadline(), Some(clock.now() + SECOND));
    assert_eq!(entry.token().deadline(), entry.deadline());
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(!entry.token().is_cancelled());
    clock.advance(Duration::from_nanos(1));
    assert!(entry.token().is_cancelled());
    let endless = builder("b").no_timeout().build(&isolation).unwrap();
    let endless = endless.admit().unwrap();
    assert_eq!(endless.deadline(), None);
    isolation.shutdown_now();
    assert!(endless.token().is_cancelled(), "everything ends");
}

#[test]
fn without_interrupts_the_token_stays() {
    let (clock, _isolation, command) = alone(|c| {
        c.timeout(SECOND)
            .configure(|c| c.interrupt_on_timeout = false)
    });
    let entry = command.admit().unwrap();
    clock.advance(SECOND);
    assert!(!entry.token().is_cancelled());
    assert!(!entry.verdict(true), "it is late all the same");
}

#[test]
fn a_lowered_limit_waits_for_entries_and_a_raised_one_serves_waiters() {
    let (_clock, _isolation, command) = alone(|c| c.permits(waiting(2, SECOND)));
    let [first, second] = [(); 2].map(|()| command.admit().unwrap());
    command.configure(|c| c.permits.limit = 1).unwrap();
    drop(first);
    let error = command.admit().unwrap_err();
    assert!(error.is_rejected(), "one is held, and one is the limit");
    let mut waits = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(waits.as_mut()).is_pending());
    assert_eq!(command.snapshot().waiting, 1);
    command.configure(|c| c.permits.limit = 2).unwrap();
    assert_eq!(command.snapshot().waiting, 1, "until it is polled");
    assert!(poll_once(waits.as_mut()).is_pending());
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 2));
    drop((waits, second));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_dropped_entry_serves_the_next_waiter() {
    let (clock, _isolation, command) = alone(|c| c.permits(waiting(1, SECOND)).no_timeout());
    for verdict in [Some(true), None] {
        let entry = command.admit().unwrap();
        std::thread::scope(|scope| {
            let sleepers = clock.sleepers();
            let waiter = scope.spawn(|| command.run(|_| Ok(1)));
            clock.await_sleepers(sleepers + 1);
            assert!(verdict.is_none_or(|verdict| entry.verdict(verdict)));
            assert_eq!(command.snapshot().waiting, 1);
            drop(entry);
            assert_eq!(waiter.join().unwrap(), Ok(1));
        });
    }
}

#[test]
fn entries_outlive_stop_remove_and_the_command() {
    let (_clock, isolation, command) = alone(|c| c.no_timeout());
    let entry = command.admit().unwrap();
    assert!(isolation.remove("a"));
    isolation.shutdown_now();
    let after = command.admit().unwrap();
    assert!(after.verdict(true), "as other calls are made after a stop");
    drop(after);
    let totals = command.snapshot().totals;
    assert_eq!(totals[Event::Success], 1);
    drop((command, isolation));
    assert!(entry.token().is_cancelled());
    assert!(!entry.verdict(true), "it was stopped");
    drop(entry);
}

#[test]
fn an_entry_moves_to_another_thread() {
    fn is_shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let (_clock, _isolation, command) = alone(|c| c);
    let entry = is_shared(command.admit().unwrap());
    std::thread::scope(|scope| {
        let ended = scope.spawn(move || entry.verdict(true));
        assert!(ended.join().unwrap());
    });
    assert_eq!(command.snapshot().active, 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn admission_never_waits_and_runs_no_fallback() {
    let permits = PermitConfig {
        partitions: Partitions {
            critical: 0.5,
            ..Partitions::default()
        },
        ..waiting(2, SECOND)
    };
    let (_clock, _isolation, command) = alone(|c| {
        c.permits(permits)
            .fallback(|_| panic!("must not be called"))
    });
    let _entry = command.admit().unwrap();
    let error = command.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
    assert_eq!(error.fallback(), None);
    let happened = [Event::PermitsRejected, Event::ExceptionThrown];
    assert_eq!(error.events(), events(&happened));
    assert_eq!(counted(&command), happened.map(|event| (event, 1)));
    let critical = command.call().criticality(Criticality::Critical).admit();
    assert!(critical.unwrap().verdict(true));
}

#[test]
fn threads_refuse_an_entry() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 1)));
    let error = command.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
}

/// What hooks and listeners saw, in order.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    CallStage(CallStage),
    Event(Event),
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// An isolation whose hooks and listeners write into the log; a hook refuses the stage given.
fn watched(refuses: Option<CallStage>) -> (Log, tidegate_core::ManualClock, Isolation) {
    let (log, clock) = (Log::default(), tidegate_core::ManualClock::new());
    let [stages, events] = [(); 2].map(|()| Arc::clone(&log));
    let isolation = isolated(|i| {
        i.clock(&clock)
            .hook(move |stage: CallStage, _: &Key| {
                stages.lock().unwrap().push(Seen::CallStage(stage));
                match Some(stage) == refuses {
                    true => Err("not today".to_owned()),
                    false => Ok(()),
                }
            })
            .on_event(move |_, event| events.lock().unwrap().push(Seen::Event(event)))
    });
    (log, clock, isolation)
}

type End = fn(&Entry, &tidegate_core::ManualClock);

/// Each way in which an entry ends, and what is seen of it then.
fn ends() -> [(End, Vec<Seen>); 5] {
    use Seen::{CallStage as S, Event as E};
    let success = vec![
        S(CallStage::ExecutionEmit),
        S(CallStage::Emit),
        S(CallStage::ExecutionSuccess),
        E(Event::Success),
        S(CallStage::Success),
    ];
    let failure = vec![
        S(CallStage::ExecutionError),
        E(Event::Failure),
        S(CallStage::Error),
    ];
    let ignored = vec![
        S(CallStage::ExecutionError),
        E(Event::BadRequest),
        E(Event::ExceptionThrown),
        S(CallStage::Error),
    ];
    let late = vec![E(Event::Timeout), S(CallStage::Error)];
    let cancelled = vec![S(CallStage::Cancelled), E(Event::Cancelled)];
    [
        (|entry, _| assert!(entry.verdict(true)), success),
        (|entry, _| assert!(entry.verdict(false)), failure),
        (|entry, _| assert!(entry.verdict(Verdict::Ignored)), ignored),
        (|_, clock| clock.advance(SECOND), late),
        (|_, _| (), cancelled),
    ]
}

#[test]
fn hooks_listeners_observers_and_the_log_record_an_entry() {
    let (log, clock, isolation) = watched(None);
    let take = || std::mem::take(&mut *log.lock().unwrap());
    let command = builder("a").timeout(SECOND).build(&isolation).unwrap();
    for (end, expected) in ends() {
        let request = RequestContext::new();
        let observed = Arc::new(Mutex::new(Vec::new()));
        let observe = Arc::clone(&observed);
        let call = command.call().context(&request);
        let call = call.observe(move |event| observe.lock().unwrap().push(event));
        let entry = call.admit().unwrap();
        let begun = [CallStage::Start, CallStage::ExecutionStart].map(Seen::CallStage);
        assert_eq!(take(), begun);
        clock.advance(Duration::from_millis(7));
        end(&entry, &clock);
        drop(entry);
        // The callback threads notify the listeners of a timeout.
        let is_complete = || log.lock().unwrap().len() >= expected.len();
        until("all listeners are notified", is_complete);
        assert_eq!(take(), expected);
        let notified = expected.iter().filter_map(|seen| match seen {
            Seen::Event(event) => Some(*event),
            Seen::CallStage(_) => None,
        });
        let notified: Vec<Event> = notified.collect();
        assert_eq!(*observed.lock().unwrap(), notified);
        let logged = request.log();
        assert_eq!((logged.len(), logged[0].events), (1, events(&notified)));
        assert!(logged[0].took >= Duration::from_millis(7));
    }
}

#[test]
fn hooks_listeners_and_the_log_record_a_refused_entry() {
    let (log, _clock, isolation) = watched(None);
    let open = builder("a").configure(|c| c.breaker.mode = BreakerMode::ForcedOpen);
    let command = open.build(&isolation).unwrap();
    let request = RequestContext::new();
    let entered = request.enter();
    let error = command.admit().unwrap_err();
    drop(entered);
    let happened = [Event::ShortCircuited, Event::ExceptionThrown];
    assert_eq!(error.events(), events(&happened));
    assert_eq!(request.log()[0].events, events(&happened));
    let expected = [
        Seen::CallStage(CallStage::Start),
        Seen::Event(Event::ShortCircuited),
        Seen::Event(Event::ExceptionThrown),
        Seen::CallStage(CallStage::Error),
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn a_hook_that_refuses_the_start_of_the_work_gives_the_permit_back() {
    let (_log, _clock, isolation) = watched(Some(CallStage::ExecutionStart));
    let command = builder("a").breaker(touchy()).build(&isolation).unwrap();
    let error = command.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::Panicked("not today".into()));
    let happened = [Event::Failure, Event::ExceptionThrown];
    assert_eq!(error.events(), events(&happened));
    assert_eq!(counted(&command), happened.map(|event| (event, 1)));
    assert_eq!(command.snapshot().active, 0);
    assert!(command.snapshot().is_open, "as if the work had failed");

    let (_log, _clock, isolation) = watched(Some(CallStage::Start));
    let command = builder("a").build(&isolation).unwrap();
    let error = command.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::Hook("not today".into()));
    assert_eq!(command.snapshot().active, 0);
}

/// What a random program has done with its entries.
#[derive(Default)]
struct EntryModel {
    /// How often each event must have been counted.
    totals: HashMap<Event, u64>,
    /// Each entry with its deadline, and whether it has its verdict.
    held: Vec<(Entry, u64, bool)>,
}

impl EntryModel {
    fn count(&mut self, event: Event) {
        *self.totals.entry(event).or_default() += 1;
    }

    fn verdict(&mut self, at: usize, now: u64, (verdict, event): (Verdict, Event)) {
        let (entry, deadline, has_verdict) = &mut self.held[at];
        let counts = entry.verdict(verdict);
        assert_eq!(counts, !*has_verdict && now < *deadline);
        let is_late = !counts && !*has_verdict;
        *has_verdict = true;
        match (counts, is_late) {
            (true, _) => self.count(event),
            (_, true) => self.count(Event::Timeout),
            _ => {}
        }
    }

    fn drop(&mut self, at: usize, now: u64) {
        let (entry, deadline, has_verdict) = self.held.swap_remove(at);
        drop(entry);
        match (has_verdict, now < deadline) {
            (true, _) => {}
            (false, true) => self.count(Event::Cancelled),
            (false, false) => self.count(Event::Timeout),
        }
    }
}

#[test]
fn totals_equal_the_verdicts_of_the_entries() {
    const VERDICTS: [(Verdict, Event); 3] = [
        (Verdict::Success, Event::Success),
        (Verdict::Failure, Event::Failure),
        (Verdict::Ignored, Event::BadRequest),
    ];
    model(0..200, |rng| {
        let (clock, _isolation, command) = alone(|c| {
            c.permits(3)
                .timeout(SECOND)
                .configure(|c| c.breaker.mode = BreakerMode::Disabled)
        });
        let mut notified = EntryModel::default();
        for _ in 0..60 {
            let (now, held) = (clock.nanos(), notified.held.len());
            match rng.below(5) {
                0 | 1 => match command.admit() {
                    Ok(entry) => {
                        let deadline = now + SECOND.as_nanos() as u64;
                        notified.held.push((entry, deadline, false));
                    }
                    Err(_) => notified.count(Event::PermitsRejected),
                },
                2 => clock.advance(Duration::from_millis(rng.below(700))),
                3 if held > 0 => notified.verdict(rng.index(held), now, VERDICTS[rng.index(3)]),
                _ if held > 0 => notified.drop(rng.index(held), now),
                _ => {}
            }
            assert_eq!(command.snapshot().active, notified.held.len());
        }
        while !notified.held.is_empty() {
            notified.drop(0, clock.nanos());
        }
        let snapshot = command.snapshot();
        let mut ended = 0;
        for event in [
            Event::Success,
            Event::Failure,
            Event::BadRequest,
            Event::Timeout,
            Event::Cancelled,
            Event::PermitsRejected,
        ] {
            let expected = notified.totals.get(&event).copied().unwrap_or(0);
            assert_eq!(snapshot.totals[event], expected, "{event:?}");
            ended += expected;
        }
        ended -= snapshot.totals[Event::PermitsRejected];
        assert_eq!(snapshot.latencies.total.count(), ended);
        assert_eq!(snapshot.active, 0);
    });
}
