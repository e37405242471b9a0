//! A collapser turns many requests into one call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    Cause, Collapser, CollapserConfig, CollapserError, CollapserScope, Command, Event, Isolation,
    Properties, RequestContext, RequestVariable,
};

use crate::support::{isolated, made, set_property, still, with_properties};

type Batches = Arc<Mutex<Vec<Vec<u32>>>>;
type Doubler = Collapser<u32, u32, &'static str>;

fn doubler(
    config: CollapserConfig,
) -> (
    ManualClock,
    Command<HashMap<u32, u32>, &'static str>,
    Batches,
    Doubler,
) {
    let (clock, isolation) = still();
    let command = made(Command::builder("double").group("tests"), &isolation);
    let batches = Batches::default();
    let note = Arc::clone(&batches);
    let collapser = Collapser::new(&command, config, move |numbers: &[u32], _: &_| {
        note.lock().unwrap().push(numbers.to_vec());
        if numbers.contains(&13) {
            return Err("unlucky");
        }
        Ok(numbers
            .iter()
            .filter(|n| **n != 0)
            .map(|n| (*n, n * 2))
            .collect())
    });
    (clock, command, batches, collapser.unwrap())
}

fn global() -> CollapserConfig {
    CollapserConfig {
        scope: CollapserScope::Global,
        ..CollapserConfig::default()
    }
}

#[test]
fn a_batch_runs_when_its_time_has_come() {
    let (clock, command, batches, collapser) = doubler(global());
    let answers = [3, 1, 2].map(|n| collapser.submit(n));
    clock.advance(Duration::from_millis(9));
    assert!(batches.lock().unwrap().is_empty());
    clock.advance(Duration::from_millis(1));
    let doubled: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.wait().unwrap())
        .collect();
    assert_eq!(doubled, [6, 2, 4]);
    assert_eq!(*batches.lock().unwrap(), [[3, 1, 2]]);
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Success], totals[Event::Collapsed]), (1, 3));
}

#[test]
fn a_full_batch_runs_at_once_and_its_timer_is_taken_back() {
    let (clock, _command, batches, collapser) = doubler(CollapserConfig {
        max_batch: 2,
        ..global()
    });
    let answers = [1, 2, 3].map(|n| collapser.submit(n));
    assert_eq!(*batches.lock().unwrap(), [[1, 2]]);
    clock.advance(Duration::from_millis(10));
    for (answer, n) in answers.into_iter().zip(1..) {
        assert_eq!(answer.wait().unwrap(), n * 2);
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        batches.lock().unwrap().len(),
        2,
        "an empty batch is not run"
    );
}

#[test]
fn equal_arguments_share_or_are_refused() {
    let (clock, command, batches, collapser) = doubler(global());
    let answers = [5, 5, 5].map(|n| collapser.submit(n));
    clock.advance(Duration::from_millis(10));
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), 10);
    }
    assert_eq!(*batches.lock().unwrap(), [[5]]);
    assert_eq!(command.snapshot().totals[Event::Collapsed], 3);
    let (clock, _command, _batches, collapser) = doubler(CollapserConfig {
        share_equal: false,
        ..global()
    });
    let (first, second) = (collapser.submit(5), collapser.submit(5));
    assert_eq!(
        second.wait().unwrap_err().failure(),
        Some(CollapserError::Duplicate)
    );
    clock.advance(Duration::from_millis(10));
    assert_eq!(first.wait().unwrap(), 10);
}

#[test]
fn a_failed_batch_fails_every_request_and_a_missing_answer_its_own() {
    let (clock, _command, _batches, collapser) = doubler(global());
    let (good, none) = (collapser.submit(1), collapser.submit(0));
    clock.advance(Duration::from_millis(10));
    assert_eq!(good.wait().unwrap(), 2);
    assert_eq!(
        none.wait().unwrap_err().failure(),
        Some(CollapserError::NoResponse)
    );
    let answers = [1, 13].map(|n| collapser.submit(n));
    clock.advance(Duration::from_millis(10));
    for answer in answers {
        let error = answer.wait().unwrap_err().failure();
        assert!(matches!(error, Some(CollapserError::Batch(error)) if error.is_failed()));
    }
}

#[test]
fn a_caller_that_has_left_is_not_part_of_the_batch() {
    let (clock, _command, batches, collapser) = doubler(global());
    let (stays, leaves) = (collapser.submit(1), collapser.submit(2));
    assert!(leaves.cancel());
    let (one, other) = (collapser.submit(3), collapser.submit(3));
    assert!(one.cancel(), "the other still waits for it");
    clock.advance(Duration::from_millis(10));
    assert_eq!((stays.wait().unwrap(), other.wait().unwrap()), (2, 6));
    assert_eq!(*batches.lock().unwrap(), [[1, 3]]);
    assert!(collapser.submit(7).cancel());
    clock.advance(Duration::from_millis(10));
    assert_eq!(
        batches.lock().unwrap().len(),
        1,
        "without waiters nothing is run"
    );
}

#[test]
fn requests_that_were_cancelled_are_no_duplicates_and_fill_no_batch() {
    let (_clock, _command, batches, collapser) = doubler(CollapserConfig {
        share_equal: false,
        max_batch: 3,
        ..global()
    });
    let leave = |n| assert!(collapser.submit(n).cancel());
    (0..3).for_each(|_| leave(5));
    let stays = collapser.submit(5);
    let twice = collapser.submit(5).wait().unwrap_err();
    assert_eq!(twice.failure(), Some(CollapserError::Duplicate));
    (6..20).for_each(leave);
    let others = [20, 21].map(|n| collapser.submit(n));
    assert_eq!(*batches.lock().unwrap(), [[5, 20, 21]]);
    assert_eq!(stays.wait().unwrap(), 10);
    assert_eq!(others.map(|answer| answer.wait().unwrap()), [40, 42]);
}

#[test]
fn a_batch_is_split_into_shards() {
    let (clock, command, batches, collapser) = doubler(global());
    let collapser = collapser.shards(|numbers| {
        let (odd, even) = numbers.into_iter().partition(|n| n % 2 == 1);
        vec![odd, even]
    });
    let answers = [1, 2, 3].map(|n| collapser.submit(n));
    clock.advance(Duration::from_millis(10));
    for (answer, n) in answers.into_iter().zip(1..) {
        assert_eq!(answer.wait().unwrap(), n * 2);
    }
    assert_eq!(*batches.lock().unwrap(), [vec![1, 3], vec![2]]);
    assert_eq!(command.snapshot().totals[Event::Collapsed], 3);
}

#[test]
fn requests_have_batches_of_their_own() {
    let (clock, _command, batches, collapser) = doubler(CollapserConfig::default());
    let lost = collapser.submit(1);
    assert_eq!(
        lost.wait().unwrap_err().failure(),
        Some(CollapserError::NoContext)
    );
    let answers = [1, 2].map(|n| {
        let _entered = RequestContext::new().enter();
        collapser.submit(n)
    });
    clock.advance(Duration::from_millis(10));
    for (answer, n) in answers.into_iter().zip(1..) {
        assert_eq!(answer.wait().unwrap(), n * 2);
    }
    assert_eq!(batches.lock().unwrap().len(), 2);
}

#[test]
fn two_collapsers_of_one_command_do_not_mix_their_requests() {
    let (clock, command, _batches, doubler) = doubler(CollapserConfig::default());
    let config = CollapserConfig::default();
    let tripler = Collapser::new(&command, config, |numbers: &[u32], _: &_| {
        Ok(numbers.iter().map(|n| (*n, n * 3)).collect())
    });
    let tripler = tripler.unwrap();
    let request = RequestContext::new();
    let answers = {
        let _entered = request.enter();
        [doubler.submit(5), tripler.submit(5), doubler.submit(7)]
    };
    clock.advance(Duration::from_millis(10));
    let answers = answers.map(|answer| answer.wait().unwrap());
    assert_eq!(answers, [10, 15, 14]);
}

#[test]
fn shards_hold_for_the_clones_too() {
    let (clock, _command, batches, collapser) = doubler(global());
    let clone = collapser.clone();
    let _collapser = collapser.shards(|numbers| numbers.into_iter().map(|n| vec![n]).collect());
    let answers = [1, 2].map(|n| clone.submit(n));
    clock.advance(Duration::from_millis(10));
    let answers = answers.map(|answer| answer.wait().unwrap());
    assert_eq!(answers, [2, 4]);
    assert_eq!(*batches.lock().unwrap(), [[1], [2]]);
}

#[test]
fn requests_of_a_stopped_isolation_end() {
    let (_clock, isolation) = still();
    let command = Command::builder("a").group("tests");
    let command = command.build(&isolation).unwrap();
    let work = |_: &[u32], _: &_| -> Result<HashMap<u32, u32>, ()> { panic!("must not run") };
    let collapser = Collapser::new(&command, global(), work).unwrap();
    let waits = collapser.submit(1);
    isolation.shutdown_now();
    let late = collapser.submit(2);
    for answer in [waits, late] {
        let error = answer.wait().unwrap_err().failure();
        assert_eq!(error, Some(CollapserError::Gone));
    }
}

#[test]
fn a_global_batch_is_in_no_request_and_that_of_a_request_in_its_own() {
    let (_clock, isolation) = still();
    let user = Arc::new(RequestVariable::new(|| 0_u32));
    for (scope, expected) in [(CollapserScope::Global, 0), (CollapserScope::Request, 7)] {
        let of_request = Arc::clone(&user);
        let key = format!("{scope:?}");
        let command = Command::builder(key).group("tests");
        let command = command.build(&isolation).unwrap();
        let config = CollapserConfig {
            scope,
            max_batch: 2,
            ..CollapserConfig::default()
        };
        let collapser = Collapser::new(&command, config, move |numbers: &[u32], _: &_| {
            let user = of_request.get().map_or(0, |user| *user);
            Ok::<_, ()>(numbers.iter().map(|n| (*n, user)).collect())
        });
        let collapser = collapser.unwrap();
        let _entered = RequestContext::new().enter();
        user.set(7).unwrap();
        let answers = [1, 2].map(|n| collapser.submit(n));
        let answers = answers.map(|answer| answer.wait().unwrap());
        assert_eq!(answers, [expected; 2], "{scope:?}");
        assert!(RequestContext::current().is_some(), "the caller's is back");
    }
}

#[test]
fn a_batch_of_nothing_is_refused() {
    let isolation = Isolation::builder().build().unwrap();
    let command: Command<HashMap<u32, u32>, ()> =
        made(Command::builder("a").group("tests"), &isolation);
    let config = CollapserConfig {
        max_batch: 0,
        ..global()
    };
    let error =
        Collapser::new(&command, config, |_: &[u32], _: &_| Ok(HashMap::new())).unwrap_err();
    assert_eq!((error.key(), error.property()), ("a", "maxRequestsInBatch"));
}

#[test]
fn the_settings_of_a_collapser_are_live_properties() {
    let clock = ManualClock::new();
    let properties = Properties::new();
    let set = |name: &str, value: &str| properties.set(&format!("hystrix.collapser.{name}"), value);
    set("default.timerDelayInMilliseconds", "20").unwrap();
    set("default.maxRequestsInBatch", "9").unwrap();
    let isolation = isolated(|i| i.clock(&clock).properties(properties.clone()));
    let command = made(Command::builder("double").group("tests"), &isolation);
    let config = CollapserConfig {
        max_batch: 3,
        ..global()
    };
    let work =
        |numbers: &[u32], _: &_| Ok::<_, &str>(numbers.iter().map(|n| (*n, n * 2)).collect());
    let collapser = Collapser::new(&command, config, work).unwrap();
    let in_force = || {
        let config = collapser.config();
        (
            config.max_batch,
            config.delay.as_millis(),
            config.share_equal,
        )
    };
    assert_eq!(
        in_force(),
        (3, 20, true),
        "the code hides what holds for all"
    );
    set("double.maxRequestsInBatch", "2").unwrap();
    set("double.requestCache.enabled", "false").unwrap();
    assert_eq!(in_force(), (2, 20, false));
    let full = [collapser.submit(1), collapser.submit(2)];
    let full = full.map(|answer| answer.wait().unwrap());
    assert_eq!(full, [2, 4], "the second has filled the batch");
    for (name, value) in [
        ("double.maxRequestsInBatch", "0"),
        ("double.maxRequestsInBatch", "-1"),
        ("default.timerDelayInMilliseconds", "soon"),
        ("double.requestCache.enabled", "perhaps"),
    ] {
        let error = set(name, value).unwrap_err();
        assert!(error.to_string().starts_with("double: "), "{error}");
        assert_eq!(in_force(), (2, 20, false), "{name} was undone");
    }
    properties
        .remove("hystrix.collapser.double.maxRequestsInBatch")
        .unwrap();
    assert_eq!(in_force(), (3, 20, false));
}

#[test]
fn a_batch_that_is_open_when_its_bound_is_lowered_runs_as_several() {
    let (clock, _command, batches, collapser) = doubler(global());
    let answers: Vec<_> = (1..6).map(|n| collapser.submit(n)).collect();
    collapser.configure(|c| c.max_batch = 2).unwrap();
    assert!(batches.lock().unwrap().is_empty());
    clock.advance(Duration::from_millis(10));
    for (answer, n) in answers.into_iter().zip(1..) {
        assert_eq!(answer.wait().unwrap(), n * 2);
    }
    let expected = [vec![1, 2], vec![3, 4], vec![5]];
    assert_eq!(*batches.lock().unwrap(), expected);
    collapser.configure(|c| c.max_batch = 9).unwrap();
    let answers: Vec<_> = (1..5).map(|n| collapser.submit(n)).collect();
    collapser.configure(|c| c.max_batch = 3).unwrap();
    let last = collapser.submit(7);
    let values = answers
        .into_iter()
        .chain([last])
        .map(|one| one.wait().unwrap());
    assert_eq!(values.collect::<Vec<_>>(), [2, 4, 6, 8, 14], "it is full");
    assert_eq!(batches.lock().unwrap()[3..], [vec![1, 2, 3], vec![4, 7]]);
}

#[test]
fn a_default_that_code_sets_hides_what_holds_for_all_collapsers() {
    let (properties, isolation) = with_properties();
    let set = |name: &str, value: &str| {
        set_property(&properties, &format!("hystrix.collapser.{name}"), value);
    };
    set("default.timerDelayInMilliseconds", "20");
    set("default.maxRequestsInBatch", "9");
    set("default.requestCache.enabled", "false");
    let command = made(Command::builder("double").group("tests"), &isolation);
    let work = |_: &[u32], _: &_| Ok::<_, &str>(HashMap::<u32, u32>::new());
    let collapser = Collapser::new(&command, global(), work).unwrap();
    let in_force = || {
        let config = collapser.config();
        let delay = config.delay.as_millis();
        (config.max_batch, delay, config.share_equal)
    };
    assert_eq!(in_force(), (9, 20, false));
    let default = CollapserConfig::default();
    let delay = default.delay;
    collapser.configure(move |c| c.delay = delay).unwrap();
    assert_eq!(in_force(), (9, 10, false), "and no other");
    collapser.configure(|c| c.share_equal = true).unwrap();
    // To the value in force.
    collapser.configure(|c| c.max_batch = 9).unwrap();
    set("default.maxRequestsInBatch", "5");
    assert_eq!(in_force(), (9, 10, true));
    set("double.timerDelayInMilliseconds", "7");
    assert_eq!(in_force(), (9, 7, true), "its own property has precedence");
    let error = collapser.configure(|c| c.max_batch = 0).unwrap_err();
    assert_eq!(error.property(), "maxRequestsInBatch");
    assert_eq!(in_force(), (9, 7, true));
}

#[test]
fn a_collapser_explains_its_refusals() {
    let (properties, isolation) = with_properties();
    let command = Command::<HashMap<u32, u32>, ()>::builder("names").group("tests");
    let command = command.build(&isolation).unwrap();
    let collapser = Collapser::new(&command, CollapserConfig::default(), |_: &[u32], _| {
        Ok(HashMap::new())
    });
    let collapser = collapser.unwrap();
    for (name, value, reason) in [
        ("maxRequestsInBatch", "many", "it is not a whole number"),
        ("maxRequestsInBatch", "-1", "it must not be negative"),
        (
            "maxRequestsInBatch",
            "0",
            "a batch needs room for one request",
        ),
        (
            "timerDelayInMilliseconds",
            "1.5",
            "it is not a whole number",
        ),
        ("timerDelayInMilliseconds", "-3", "it must not be negative"),
        (
            "requestCache.enabled",
            "perhaps",
            "there are true and false",
        ),
    ] {
        let error = properties.set(&format!("hystrix.collapser.names.{name}"), value);
        let error = error.unwrap_err();
        assert_eq!((error.key(), error.property()), ("names", name));
        assert_eq!(error.reason(), reason, "{name} = {value}");
    }
    assert_eq!(*collapser.config(), CollapserConfig::default());
    set_property(
        &properties,
        "hystrix.collapser.names.maxRequestsInBatch",
        "2147483647",
    );
    assert_eq!(collapser.config().max_batch, 2_147_483_647, "as in Hystrix");
}

/// A result that panics when it is cloned for the request with the number 1.
#[derive(Debug, PartialEq)]
struct Fragile(u32);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert_ne!(self.0, 1, "on purpose");
        Self(self.0)
    }
}

#[test]
fn an_answer_that_cannot_be_cloned_ends_its_own_request_only() {
    let (_clock, isolation) = still();
    let command = Command::builder("a").group("tests").build(&isolation);
    let command: Command<HashMap<u32, Fragile>, &str> = command.unwrap();
    let config = CollapserConfig {
        scope: CollapserScope::Global,
        max_batch: 3,
        ..CollapserConfig::default()
    };
    let collapser = Collapser::new(&command, config, |all: &[u32], _| {
        Ok(all.iter().map(|one| (*one, Fragile(*one))).collect())
    });
    let collapser = collapser.unwrap();
    let [zero, one, two] = [0, 1, 2].map(|number| collapser.submit(number));
    assert_eq!((zero.wait(), two.wait()), (Ok(Fragile(0)), Ok(Fragile(2))));
    let error = one.wait().unwrap_err().failure();
    let Some(CollapserError::Batch(error)) = error else {
        panic!("{error:?}");
    };
    assert!(matches!(error.cause(), Cause::Panicked(_)), "{error}");
}
