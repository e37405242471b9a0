//! Races between real threads: many rounds, each started by a barrier and checked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll};
use std::thread;

use tidegate_promise::{Completion, Failure, Promise, SharedPromise, promise};
use tidegate_testkit::{Counter, DropCount};

use crate::support::{Loop, counting_waker};

const ROUNDS: usize = 4_000;

/// Runs `left` and `right` on two threads that start each round together, then `check`.
fn race<S, L, R, A, B>(
    make: impl Fn() -> (L, R, S),
    left: impl Fn(L) -> A + Sync,
    right: impl Fn(R) -> B + Sync,
    check: impl Fn(S, A, B),
) where
    L: Send,
    R: Send,
    A: Send,
    B: Send,
{
    let (to_left, from_left) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let (tasks, answers) = (to_left.1, from_left.0);
        let (left, barrier) = (&left, &barrier);
        scope.spawn(move || {
            for task in tasks {
                barrier.wait();
                answers.send(left(task)).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let (for_left, for_right, rest) = make();
            to_left.0.send(for_left).unwrap();
            barrier.wait();
            let mine = right(for_right);
            let other = from_left.1.recv().unwrap();
            check(rest, other, mine);
        }
        drop(to_left.0);
    });
}

/// Returns both ends of a promise, one for each thread of a race.
fn ends<T: Send + 'static>() -> (Promise<T>, Completion<T>, ()) {
    let (promise, answer) = promise();
    (promise, answer, ())
}

#[test]
fn completing_against_cancelling_has_one_winner() {
    let notified = Counter::new();
    race(
        || {
            let (promise, answer) = promise::<Box<u32>>();
            let notified = notified.clone();
            answer.on_complete(move |_| notified.note());
            (promise, answer, ())
        },
        |promise| promise.succeed(Box::new(1)).is_ok(),
        |answer| (answer.cancel(), answer),
        |(), completed, (cancelled, answer)| {
            assert!(completed != cancelled);
            assert_eq!(answer.is_cancelled(), cancelled);
        },
    );
    assert_eq!(notified.count(), ROUNDS as u64);
}

#[test]
fn completing_against_listening_notifies_each_once() {
    let drops = Counter::new();
    race(
        ends::<Box<u32>>,
        |promise| promise.succeed(Box::new(1)).unwrap(),
        |answer| {
            let calls = Arc::new(AtomicUsize::new(0));
            for _ in 0..3 {
                let (calls, captured) = (Arc::clone(&calls), DropCount::new(&drops));
                answer.on_complete(move |outcome| {
                    assert_eq!(outcome.success().map(|value| **value), Some(1));
                    calls.fetch_add(1, Ordering::Relaxed);
                    drop(captured);
                });
            }
            (calls, answer)
        },
        |(), (), (calls, answer)| {
            assert_eq!(*answer.wait().unwrap(), 1);
            assert_eq!(calls.load(Ordering::Relaxed), 3);
        },
    );
    assert_eq!(drops.count(), 3 * ROUNDS as u64);
}

#[test]
fn completing_against_dropping_the_reader_frees_once() {
    let drops = Counter::new();
    race(
        ends::<DropCount>,
        |promise| drop(promise.succeed(DropCount::new(&drops))),
        drop,
        |(), (), ()| (),
    );
    assert_eq!(drops.count(), ROUNDS as u64);
}

#[test]
fn completing_with_a_hook_against_dropping_the_reader_frees_both_once() {
    let drops = Counter::new();
    race(
        || {
            let (promise, answer) = promise::<DropCount>();
            let captured = DropCount::new(&drops);
            promise.on_cancel(move || drop(captured));
            (promise, answer, ())
        },
        |promise| drop(promise.succeed(DropCount::new(&drops))),
        drop,
        |(), (), ()| (),
    );
    assert_eq!(drops.count(), 2 * ROUNDS as u64);
}

#[test]
fn completing_against_polling_with_changing_wakers_wakes_the_last() {
    race(
        ends::<Box<u32>>,
        |promise| promise.succeed(Box::new(7)).unwrap(),
        |mut answer| {
            let mut last = None;
            for _ in 0..3 {
                let (waker, woken) = counting_waker();
                let mut context = Context::from_waker(&waker);
                match std::pin::Pin::new(&mut answer).poll(&mut context) {
                    Poll::Ready(value) => return (None, Some(*value.unwrap()), answer),
                    Poll::Pending => last = Some(woken),
                }
            }
            (last, None, answer)
        },
        |(), (), (woken, value, answer)| match value {
            Some(value) => assert_eq!(value, 7),
            None => {
                woken.unwrap().wait_for(1);
                assert_eq!(*answer.wait().unwrap(), 7);
            }
        },
    );
}

#[test]
fn completing_against_waiting_loses_no_wakeup() {
    race(
        ends::<u64>,
        |promise| promise.succeed(7).unwrap(),
        |answer| answer.wait().unwrap(),
        |(), (), value| assert_eq!(value, 7),
    );
}

#[test]
fn shared_writers_have_one_winner() {
    race(
        || {
            let (promise, answer) = promise::<Box<u32>>();
            let promise = promise.share();
            (promise.clone(), promise, answer)
        },
        |promise: SharedPromise<Box<u32>>| promise.try_succeed(Box::new(1)).is_ok(),
        |promise: SharedPromise<Box<u32>>| promise.try_succeed(Box::new(2)).is_ok(),
        |answer, first, second| {
            assert!(first != second);
            assert_eq!(*answer.wait().unwrap(), if first { 1 } else { 2 });
        },
    );
}

#[test]
fn shared_writers_that_all_leave_abandon_once() {
    let notified = Counter::new();
    race(
        || {
            let (promise, answer) = promise::<u32>();
            let (promise, notified) = (promise.share(), notified.clone());
            answer.finally(move |outcome| {
                assert!(outcome.failure().unwrap().is_abandoned());
                notified.hit();
            });
            (promise.clone(), promise, ())
        },
        drop::<SharedPromise<u32>>,
        drop::<SharedPromise<u32>>,
        |(), (), ()| (),
    );
    assert_eq!(notified.count(), ROUNDS as u64);
}

#[test]
fn removing_against_notifying_has_one_winner() {
    race(
        || {
            let (promise, answer) = promise::<u32>();
            let calls = Arc::new(AtomicUsize::new(0));
            let ids: Vec<_> = (0..3)
                .map(|_| {
                    let calls = Arc::clone(&calls);
                    answer.on_complete(move |_| {
                        calls.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            (promise, (answer, ids), calls)
        },
        |promise| promise.succeed(1).unwrap(),
        |(answer, ids)| {
            let removed = ids.iter().filter(|id| answer.remove_listener(id)).count();
            (removed, answer)
        },
        |calls, (), (removed, answer)| {
            assert_eq!(answer.wait().unwrap(), 1);
            assert_eq!(calls.load(Ordering::Relaxed), 3 - removed);
        },
    );
}

#[test]
fn guards_that_come_and_go_against_completing_lose_no_other_listener() {
    let drops = Counter::new();
    race(
        || {
            let (promise, answer) = promise::<u32>();
            let answer = answer.share().unwrap();
            let notified = Counter::new();
            let count = notified.clone();
            answer.on_complete(move |_| count.note());
            (promise, answer, notified)
        },
        |promise| promise.succeed(1).unwrap(),
        |answer| {
            for _ in 0..70 {
                let captured = DropCount::new(&drops);
                drop(answer.listen(move |_| drop(captured)));
            }
        },
        |notified, (), ()| assert_eq!(notified.count(), 1),
    );
    assert_eq!(drops.count(), 70 * ROUNDS as u64);
}

#[test]
fn clones_that_leave_together_free_once() {
    let drops = Counter::new();
    race(
        || {
            let answer = Completion::<Arc<DropCount>>::succeeded(Arc::new(DropCount::new(&drops)));
            let answer = answer.share().unwrap();
            (answer.clone(), answer, ())
        },
        drop,
        drop,
        |(), (), ()| (),
    );
    assert_eq!(drops.count(), ROUNDS as u64);
}

#[test]
fn a_hook_against_a_cancellation_runs_once() {
    let ran = Counter::new();
    race(
        ends::<u32>,
        |promise| {
            let ran = ran.clone();
            promise.on_cancel(move || ran.note());
            promise
        },
        |answer| assert!(answer.cancel()),
        |(), _promise, ()| (),
    );
    assert_eq!(ran.count(), ROUNDS as u64);
}

#[test]
fn a_success_against_the_last_failure_still_wins() {
    race(
        || {
            let (good, first) = promise::<u32>();
            let (bad, second) = promise::<u32>();
            (good, bad, Completion::first_success([first, second]))
        },
        |good| good.succeed(1),
        |bad| bad.fail(Failure::new("no luck")),
        |answer, _, _| assert_eq!(answer.wait().unwrap(), 1),
    );
}

#[test]
fn completing_against_the_end_of_the_home_notifies_each_once() {
    let notified = Counter::new();
    for _ in 0..100 {
        let home = Loop::new("home");
        let promises: Vec<_> = (0..20)
            .map(|_| {
                let (promise, answer) = home.promise::<u32>();
                let notified = notified.clone();
                answer.finally(move |_| notified.note());
                promise
            })
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                for promise in promises {
                    promise.succeed(1).unwrap();
                }
            });
            home.terminate();
        });
    }
    assert_eq!(notified.count(), 2_000);
}
