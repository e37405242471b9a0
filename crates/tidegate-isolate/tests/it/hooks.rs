//! Hooks, listeners and publishers: called in order, several of each kind, with panics contained.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{ManualClock, OnUnhandled};
use tidegate_isolate::{
    BreakerMode, Bulkhead, CallStage, Cause, FallbackError, Isolation, IsolationBuilder, Key,
    Properties,
};
use tidegate_testkit::{Gate, Log, until};

use crate::support::{Answer, SECOND, builder, hold, isolated, made, pool, pool_of, still_with};

fn hooked() -> (Log<CallStage>, ManualClock, Isolation) {
    let (stages, note) = Log::pair();
    let (clock, isolation) = still_with(|i| {
        i.hook(move |stage: CallStage, _: &Key| {
            note.push(stage);
            Ok(())
        })
    });
    (stages, clock, isolation)
}

#[test]
fn success_goes_through_its_stages() {
    let (stages, _clock, isolation) = hooked();
    let command = builder("a").build(&isolation).unwrap();
    command.run(|_| Ok(1)).unwrap();
    let expected = [
        CallStage::Start,
        CallStage::ExecutionStart,
        CallStage::ExecutionEmit,
        CallStage::Emit,
        CallStage::ExecutionSuccess,
        CallStage::Success,
    ];
    assert_eq!(stages.take(), expected);
}

#[test]
fn failure_with_and_without_a_fallback() {
    let (stages, _clock, isolation) = hooked();
    let with = made(builder("with").fallback(|_| Ok(1)), &isolation);
    with.run(|_| Err("no")).unwrap();
    let expected = [
        CallStage::Start,
        CallStage::ExecutionStart,
        CallStage::ExecutionError,
        CallStage::FallbackStart,
        CallStage::FallbackEmit,
        CallStage::Emit,
        CallStage::FallbackSuccess,
        CallStage::Success,
    ];
    assert_eq!(stages.take(), expected);
    let without = builder("without").build(&isolation).unwrap();
    let _ = without.run(|_| Err("no"));
    let expected = [
        CallStage::Start,
        CallStage::ExecutionStart,
        CallStage::ExecutionError,
        CallStage::Error,
    ];
    assert_eq!(stages.take(), expected);
    let failing = made(builder("failing").fallback(|_| Err("neither")), &isolation);
    let _ = failing.run(|_| Err("no"));
    let expected = [
        CallStage::FallbackStart,
        CallStage::FallbackError,
        CallStage::Error,
    ];
    assert_eq!(stages.take()[3..], expected);
}

#[test]
fn a_timeout_has_neither_execution_error_nor_success() {
    let (stages, clock, isolation) = hooked();
    let command = builder("a").fallback(|_| Ok(1)).build(&isolation).unwrap();
    command
        .run(move |_| {
            clock.advance(Duration::from_secs(1));
            Ok(2)
        })
        .unwrap();
    let expected = [
        CallStage::Start,
        CallStage::ExecutionStart,
        CallStage::FallbackStart,
        CallStage::FallbackEmit,
        CallStage::Emit,
        CallStage::FallbackSuccess,
        CallStage::Success,
    ];
    assert_eq!(stages.take(), expected);
}

/// Returns the stages that the hooks saw of a call on a thread that `leave` ends while it runs.
fn left(leave: impl FnOnce(&ManualClock, &Answer)) -> Vec<CallStage> {
    let (stages, clock, isolation) = hooked();
    let command = made(
        builder("a")
            .threads(pool_of(1, 0))
            .timeout(SECOND)
            .fallback(|_| Ok(9)),
        &isolation,
    );
    let go_on = Gate::new();
    let answer = hold(&command, &go_on);
    leave(&clock, &answer);
    let _ = answer.wait();
    let seen = stages.take();
    go_on.open();
    until("no call is active", || pool(&isolation).active == 0);
    assert_eq!(stages.take(), [CallStage::ThreadComplete], "when it is");
    seen
}

#[test]
fn a_thread_that_was_left_completes_when_its_work_ends() {
    let cancelled = [
        CallStage::Start,
        CallStage::ThreadStart,
        CallStage::ExecutionStart,
        CallStage::Cancelled,
    ];
    assert_eq!(left(|_, answer| assert!(answer.cancel())), cancelled);
    let late = [
        CallStage::Start,
        CallStage::ThreadStart,
        CallStage::ExecutionStart,
        CallStage::FallbackStart,
        CallStage::FallbackEmit,
        CallStage::Emit,
        CallStage::FallbackSuccess,
        CallStage::Success,
    ];
    assert_eq!(left(|clock, _| clock.jump(SECOND)), late);
}

#[test]
fn a_full_pool_has_only_start_and_error() {
    let (stages, _clock, isolation) = hooked();
    let command = made(builder("a").threads(pool_of(1, 0)), &isolation);
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    drop(stages.take());
    assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected());
    assert_eq!(stages.take(), [CallStage::Start, CallStage::Error]);
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_short_circuit_has_only_start_and_error() {
    let (stages, _clock, isolation) = hooked();
    let open = builder("a").configure(|c| c.breaker.mode = BreakerMode::ForcedOpen);
    let command = made(open, &isolation);
    let _ = command.run(|_| Ok(1));
    assert_eq!(stages.take(), [CallStage::Start, CallStage::Error]);
}

#[test]
fn a_hook_that_refuses_the_start_ends_the_call_without_a_fallback() {
    let refuse = |at: CallStage| {
        let isolation = isolated(|i| {
            i.hook(move |stage: CallStage, _: &Key| match stage == at {
                true => Err("not today".to_owned()),
                false => Ok(()),
            })
        });
        made(builder("a").fallback(|_| Ok(1)), &isolation)
    };
    let command = refuse(CallStage::Start);
    let error = command.run(|_| panic!("must not run")).unwrap_err();
    assert_eq!(error.cause(), &Cause::Hook("not today".into()));
    assert_eq!(error.fallback(), None);

    let command = refuse(CallStage::ExecutionStart);
    let answer = command.run(|_| panic!("must not run"));
    assert_eq!(answer, Ok(1), "as if the work had failed");

    let error = refuse(CallStage::FallbackStart).run(|_| Err("no"));
    let panicked = FallbackError::Panicked("not today".into());
    assert_eq!(error.unwrap_err().fallback(), Some(&panicked));

    let answer = refuse(CallStage::Success).run(|_| Ok(2));
    assert_eq!(answer, Ok(2), "an observer cannot refuse");
}

#[test]
fn several_hooks_and_listeners_and_one_that_panics() {
    let log = Log::new();
    let note = |name: &'static str| {
        let log = log.clone();
        move |_: &Key, event| log.push((name, event))
    };
    let isolation = isolated(|i| {
        i.on_event(note("first"))
            .on_event(|_, _| panic!("on purpose"))
            .on_event(note("second"))
            .hook(|_: CallStage, _: &Key| -> Result<(), String> { panic!("on purpose") })
    });
    let command = builder("a").build(&isolation).unwrap();
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert!(
        matches!(error.cause(), Cause::Hook(_)),
        "a start hook that panics refuses"
    );
    let names: Vec<_> = log.take().iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..2], ["first", "second"]);
}

/// Records its calls, under its name.
#[derive(Clone)]
struct Named(&'static str, Log<String>);

impl Named {
    fn note(&self, what: &str) {
        self.1.push(format!("{} {what}", self.0));
    }
}

/// Adds a plug-in of each kind, which records its calls in `named`.
fn plug_in(isolation: IsolationBuilder, named: &Named) -> IsolationBuilder {
    let (added, captured, name) = (named.clone(), named.clone(), named.0);
    isolation
        .on_command_added(move |_| added.note("added"))
        .propagator(move || {
            captured.note("captured");
            let this = captured.clone();
            move || {
                this.note("installed");
                move || this.note("restored")
            }
        })
        .hook(move |stage, _| match stage {
            CallStage::ExecutionStart => Err(format!("{name} says no")),
            _ => Ok(()),
        })
}

#[test]
fn several_of_each_kind_in_their_order() {
    let log = Log::new();
    let [one, two] = ["one", "two"].map(|name| Named(name, log.clone()));
    let [strong, weak] = [(); 2].map(|()| Properties::new());
    let isolation = plug_in(plug_in(Isolation::builder(), &one), &two)
        .properties(strong.clone())
        .properties(weak.clone())
        .build()
        .unwrap();
    let command = made(builder("a").threads(pool_of(1, 1)), &isolation);
    let error = command.run(|_| panic!("must not run")).unwrap_err();
    let refused = Cause::Panicked("one says no".into());
    assert_eq!(error.cause(), &refused, "the first refusal counts");
    until("no call is active", || pool(&isolation).active == 0);
    let expected = [
        "one added",
        "two added",
        "one captured",
        "two captured",
        "one installed",
        "two installed",
        "two restored",
        "one restored",
    ];
    assert_eq!(log.take(), expected);
    let name = "hystrix.command.a.circuitBreaker.requestVolumeThreshold";
    let volume = || command.config().breaker.min_calls;
    weak.set(name, "5").unwrap();
    assert_eq!(volume(), 5, "both sources take effect");
    strong.set(name, "6").unwrap();
    assert_eq!(volume(), 6);
    weak.set(name, "7").unwrap();
    assert_eq!(volume(), 6, "the first source with a value wins");
    strong.remove(name).unwrap();
    assert_eq!(volume(), 7);
}

#[test]
fn listeners_are_called_once_for_each_key() {
    let received = Log::new();
    let note = received.clone();
    let isolation = isolated(|i| i.on_command_added(move |key| note.push(key.to_string())));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| builder("a").build(&isolation).unwrap());
        }
    });
    assert!(isolation.remove("a") && !isolation.remove("a"));
    assert_eq!(received.take(), ["a"]);
}

#[test]
fn listeners_hear_of_every_pool_once() {
    let received = Log::new();
    let note = received.clone();
    let isolation = isolated(|i| {
        i.report_to(OnUnhandled::new(|_, _| ()))
            .on_pool_added(|_| panic!("on purpose"))
            .on_pool_added(move |pool| note.push(pool.to_string()))
    });
    std::thread::scope(|scope| {
        let isolation = &isolation;
        for key in ["a", "b", "c"] {
            let command = builder(key).pool("one").threads(pool_of(1, 1));
            scope.spawn(move || command.build(isolation).unwrap());
        }
    });
    let late = builder("late").build(&isolation).unwrap();
    assert_eq!(received.take(), ["one"], "permits have no pool");
    let change = |bulkhead| late.configure(|c| c.bulkhead = bulkhead).unwrap();
    change(Bulkhead::Threads);
    change(Bulkhead::Permits);
    change(Bulkhead::Threads);
    assert_eq!(received.take(), ["late"]);
    for key in ["a", "b", "c", "late"] {
        assert!(isolation.remove(key));
    }
    let again = builder("a").pool("one").threads(pool_of(1, 1));
    let _again = again.build(&isolation).unwrap();
    assert_eq!(received.take(), ["one"], "a new pool");
}

#[test]
fn changes_of_breakers_are_events() {
    let (log, note) = Log::pair();
    let (clock, isolation) = still_with(|i| {
        i.on_transition(move |change| note.push(format!("{} {:?}", change.key, change.to)))
    });
    let command = builder("a").build(&isolation).unwrap();
    for _ in 0..20 {
        let _ = command.run(|_| Err("down"));
    }
    clock.advance(Duration::from_secs(6));
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(log.take(), ["a Open", "a HalfOpen", "a Closed"]);
    clock.advance(Duration::from_secs(2));
    let snapshot = command.snapshot();
    assert_eq!(snapshot.breaker_entered, [1, 1, 1, 0], "once each");
    // It opened when the first bucket closed, and closed at six seconds, when it was called again.
    let times = [2_500, 5_500, 0, 0].map(Duration::from_millis);
    assert_eq!(snapshot.breaker_times, times);
}

/// Listeners may use the isolation: no lock is held.
#[test]
fn listeners_of_pools_may_use_and_change_the_isolation() {
    let log = Log::new();
    let home = Arc::new(OnceLock::<Isolation>::new());
    let (mine, added) = (Arc::downgrade(&home), log.clone());
    let isolation = isolated(|i| {
        i.on_pool_added(move |pool| {
            added.push(pool.to_string());
            let home = mine.upgrade().unwrap();
            let isolation = home.get().unwrap();
            assert_eq!(isolation.settings().len(), 1);
            assert_eq!(isolation.pool_snapshots().len(), 1);
            assert!(isolation.remove(pool));
            if &**pool == "a" {
                let other = builder("b").threads(pool_of(1, 1)).build(isolation);
                assert_eq!(other.unwrap().run(|_| Ok(1)), Ok(1));
            }
        })
    });
    home.set(isolation.clone()).unwrap();
    drop(made(builder("a").threads(pool_of(1, 1)), &isolation));
    assert_eq!(log.take(), ["a", "b"]);
    assert_eq!((isolation.len(), isolation.pool_count()), (0, 0));
}
