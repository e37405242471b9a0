//! Combined and cascaded completions, with cancellation in both directions.

use tidegate_promise::{Completion, Failure, FailureKind, Promise, promise};
use tidegate_testkit::{Counter, DropCount, Log};

use crate::support::{Loop, thread};

type Pairs = (Vec<Promise<u32>>, Vec<Completion<u32>>);

fn some(count: usize) -> Pairs {
    (0..count).map(|_| promise::<u32>()).unzip()
}

fn cause<T: std::fmt::Debug + Send>(answer: Completion<T>) -> Failure {
    answer.wait().unwrap_err().failure().unwrap()
}

#[test]
fn all_returns_every_value_in_the_order_of_the_parts() {
    let (promises, parts) = some(3);
    let every = Completion::all(parts);
    for (n, promise) in promises.into_iter().enumerate().rev() {
        assert!(!every.is_done());
        promise.succeed(u32::try_from(n).unwrap()).unwrap();
    }
    assert_eq!(every.wait().unwrap(), [0, 1, 2]);
}

#[test]
fn all_waits_for_every_part_and_fails_with_the_first_failure_seen() {
    let (mut promises, parts) = some(3);
    let every = Completion::all(parts);
    promises.pop().unwrap().fail(Failure::new("first")).unwrap();
    assert!(!every.is_done(), "it does not fail fast");
    promises
        .pop()
        .unwrap()
        .fail(Failure::new("second"))
        .unwrap();
    assert!(!every.is_done());
    promises.pop().unwrap().succeed(1).unwrap();
    assert_eq!(cause(every).to_string(), "first");
}

#[test]
fn all_of_nothing_completes_at_once() {
    let every = Completion::all(Vec::<Completion<u32>>::new());
    assert!(every.is_done());
    assert_eq!(every.wait().unwrap(), Vec::<u32>::new());
}

#[test]
fn all_of_decided_parts_completes_at_once() {
    let every = Completion::all([Completion::succeeded(1), Completion::succeeded(2)]);
    assert!(every.is_done());
    assert_eq!(every.wait().unwrap(), [1, 2]);
}

#[test]
fn a_cancelled_part_counts_as_a_failure() {
    let (mut promises, parts) = some(2);
    let every = Completion::all(parts);
    promises.pop().unwrap().cancel();
    promises.pop().unwrap().succeed(1).unwrap();
    assert_eq!(cause(every).kind(), FailureKind::Cancelled);
}

#[test]
fn a_part_whose_outcome_was_taken_counts_as_a_failure() {
    let mut taken: Completion<u32> = Completion::succeeded(1);
    taken.take().unwrap();
    let (promise, part) = promise::<u32>();
    let every = Completion::all([taken, part]);
    assert!(!every.is_done());
    promise.succeed(1).unwrap();
    assert!(cause(every).is_abandoned());
}

#[test]
fn cancelling_all_cancels_every_part() {
    let (promises, parts) = some(3);
    let every = Completion::all(parts);
    assert!(every.cancel());
    assert!(promises.iter().all(Promise::is_cancelled));
    assert!(every.wait().unwrap_err().is_cancelled());
}

#[test]
fn all_hops_from_other_threads_without_losing_a_part() {
    let (promises, parts) = some(16);
    let every = Completion::all(parts);
    let workers: Vec<_> = promises
        .into_iter()
        .zip(0..)
        .map(|(promise, n)| thread(move || promise.succeed(n).unwrap()))
        .collect();
    assert_eq!(every.wait().unwrap(), (0..16).collect::<Vec<_>>());
    for worker in workers {
        worker.join().unwrap();
    }
}

/// Panics on clone if the field is `false`.
#[derive(Debug)]
struct Single(bool);

impl Clone for Single {
    fn clone(&self) -> Self {
        assert!(self.0, "on purpose");
        Self(true)
    }
}

#[test]
fn a_value_whose_clone_panics_abandons_the_answer() {
    let (a, first) = promise::<Single>();
    let (b, second) = tidegate_promise::promise::<Single>();
    let every = Completion::all([first, second]);
    a.succeed(Single(false)).unwrap();
    assert!(!every.is_done());
    b.succeed(Single(true)).unwrap();
    assert!(
        cause(every).is_abandoned(),
        "never a success with a value missing"
    );

    let (a, first) = tidegate_promise::promise::<Single>();
    let fastest = Completion::any([first]);
    a.succeed(Single(false)).unwrap();
    assert!(cause(fastest).is_abandoned());
}

#[test]
fn any_completes_as_the_first_does_and_cancels_the_others() {
    let (mut promises, parts) = some(3);
    let fastest = Completion::any(parts);
    promises.remove(1).succeed(7).unwrap();
    assert!(promises.iter().all(Promise::is_cancelled));
    assert_eq!(fastest.wait().unwrap(), 7);

    let (mut promises, parts) = some(2);
    let fastest = Completion::any(parts);
    promises.remove(0).fail(Failure::new("no luck")).unwrap();
    assert!(promises[0].is_cancelled());
    assert_eq!(cause(fastest).to_string(), "no luck");

    let (mut promises, parts) = some(2);
    let fastest = Completion::any(parts);
    promises.remove(0).cancel();
    assert_eq!(cause(fastest).kind(), FailureKind::Cancelled);
}

#[test]
fn any_of_a_decided_part_is_decided() {
    let (promise, part) = promise::<u32>();
    let fastest = Completion::any([Completion::succeeded(1), part]);
    assert!(fastest.is_done() && promise.is_cancelled());
    assert_eq!(fastest.wait().unwrap(), 1);
}

#[test]
fn any_and_first_success_of_nothing_are_abandoned() {
    assert!(cause(Completion::any(Vec::<Completion<u32>>::new())).is_abandoned());
    assert!(cause(Completion::first_success(Vec::<Completion<u32>>::new())).is_abandoned());
}

#[test]
fn first_success_passes_over_failures() {
    let (mut promises, parts) = some(3);
    let good = Completion::first_success(parts);
    promises.remove(0).fail(Failure::new("no luck")).unwrap();
    assert!(!good.is_done());
    promises.remove(0).succeed(2).unwrap();
    assert!(promises[0].is_cancelled());
    assert_eq!(good.wait().unwrap(), 2);
}

#[test]
fn first_success_fails_with_the_last_failure_when_none_succeeds() {
    let (promises, parts) = some(2);
    let good = Completion::first_success(parts);
    for (n, promise) in promises.into_iter().enumerate() {
        assert!(!good.is_done());
        promise.fail(Failure::new(format!("failure {n}"))).unwrap();
    }
    assert_eq!(cause(good).to_string(), "failure 1");
    let (promises, parts) = some(2);
    let good = Completion::first_success(parts);
    promises.into_iter().for_each(Promise::cancel);
    assert_eq!(cause(good).kind(), FailureKind::Cancelled);
}

#[test]
fn cancelling_a_race_cancels_every_part() {
    for race in [Completion::any, Completion::first_success] {
        let (promises, parts) = some(3);
        let answer = race(parts);
        assert!(answer.cancel());
        assert!(promises.iter().all(Promise::is_cancelled));
    }
}

#[test]
fn the_parts_are_released_when_the_combined_result_is_decided() {
    #[derive(Clone)]
    struct Value(std::sync::Arc<DropCount>);
    let drops = Counter::new();
    let value = || Value(std::sync::Arc::new(DropCount::new(&drops)));
    for combine in [Completion::<Value>::any, Completion::<Value>::first_success] {
        let (promise, part) = promise::<Value>();
        let (_other, second) = tidegate_promise::promise::<Value>();
        let answer = combine(vec![part, second]);
        promise.succeed(value()).unwrap();
        let taken = answer.wait().ok().unwrap();
        assert_eq!(
            std::sync::Arc::strong_count(&taken.0),
            1,
            "no part keeps it"
        );
    }
    let (promise, part) = promise::<Value>();
    let every = Completion::all([part]);
    promise.succeed(value()).unwrap();
    let taken = every.wait().ok().unwrap();
    assert_eq!(
        std::sync::Arc::strong_count(&taken[0].0),
        1,
        "no part keeps it"
    );
    drop(taken);
    assert_eq!(drops.count(), 3);
}

#[test]
fn map_passes_value_failure_and_cancellation_on() {
    let (promise, answer) = promise::<u32>();
    let doubled = answer.map(|n| n * 2);
    promise.succeed(21).unwrap();
    assert_eq!(doubled.wait().unwrap(), 42);
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let doubled = answer.map(|n| n * 2);
    promise.fail(Failure::new("no luck")).unwrap();
    assert_eq!(cause(doubled).to_string(), "no luck");
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let doubled = answer.map(|n| n * 2);
    promise.cancel();
    assert!(doubled.wait().unwrap_err().is_cancelled());
}

#[test]
fn cancelling_what_was_mapped_cancels_the_source() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    let received = log.clone();
    promise.on_cancel(move || received.push("cancelled"));
    let mapped = answer.map(|n| n + 1).map(|n| n + 1);
    assert!(mapped.cancel());
    assert!(promise.is_cancelled());
    assert_eq!(log.take(), ["cancelled"]);
}

#[test]
fn a_panicking_map_abandons_the_answer_and_is_reported() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let mapped = answer.map(|_| -> u32 { panic!("on purpose") });
    promise.succeed(1).unwrap();
    assert!(cause(mapped).is_abandoned());
    home.settle();
    assert_eq!(home.unhandled(), ["a listener panicked: on purpose"]);
}

#[test]
fn map_of_a_taken_outcome_is_abandoned() {
    let mut taken: Completion<u32> = Completion::succeeded(1);
    taken.take().unwrap();
    assert!(cause(taken.map(|n| n + 1)).is_abandoned());
}

#[test]
fn cascade_passes_the_outcome_to_the_target() {
    let (promise, answer) = promise::<u32>();
    let (target, end) = tidegate_promise::promise::<u32>();
    answer.cascade(target);
    promise.succeed(1).unwrap();
    assert_eq!(end.wait().unwrap(), 1);
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let (target, end) = tidegate_promise::promise::<u32>();
    answer.cascade(target);
    promise.fail(Failure::new("no luck")).unwrap();
    assert_eq!(cause(end).to_string(), "no luck");
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let (target, end) = tidegate_promise::promise::<u32>();
    answer.cascade(target);
    promise.cancel();
    assert!(end.is_cancelled());
}

#[test]
fn cascade_passes_a_cancellation_of_the_target_back_without_a_loop() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let (target, end) = home.promise::<u32>();
    answer.cascade(target);
    assert!(end.cancel());
    assert!(promise.is_cancelled());
    home.settle();
    assert!(home.unhandled().is_empty());
    let (promise, answer) = home.promise::<u32>();
    let (target, end) = home.promise::<u32>();
    assert!(end.cancel());
    answer.cascade(target);
    assert!(promise.is_cancelled(), "also when it was cancelled before");
}

#[test]
fn a_target_that_is_decided_keeps_its_outcome() {
    let (promise, answer) = promise::<u32>();
    promise.set_uncancellable();
    let (target, end) = tidegate_promise::promise::<u32>();
    answer.cascade(target);
    assert!(end.cancel());
    promise.succeed(1).unwrap();
    assert!(end.is_cancelled());
}

#[test]
fn a_target_that_cannot_be_cancelled_is_abandoned_instead() {
    let (promise, answer) = promise::<u32>();
    let (target, end) = tidegate_promise::promise::<u32>();
    target.set_uncancellable();
    answer.cascade(target);
    promise.cancel();
    assert!(cause(end).is_abandoned(), "never left undecided");
}
