//! Completions as futures: wakers, and other runtimes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_promise::{Failure, WaitError, promise};

use crate::support::{Loop, counting_waker, thread};

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn wakes_the_task_that_polled() {
    let (promise, mut answer) = promise::<u32>();
    let (waker, woken) = counting_waker();
    assert!(poll(&mut answer, &waker).is_pending());
    assert!(poll(&mut answer, &waker).is_pending());
    promise.succeed(1).unwrap();
    assert_eq!(woken.count(), 1);
    assert!(matches!(poll(&mut answer, &waker), Poll::Ready(Ok(1))));
    assert!(matches!(
        poll(&mut answer, &waker),
        Poll::Ready(Err(WaitError::Taken))
    ));
}

#[test]
fn wakes_only_the_waker_of_the_last_poll() {
    let (promise, mut answer) = promise::<u32>();
    let (first, first_woken) = counting_waker();
    let (second, second_woken) = counting_waker();
    assert!(poll(&mut answer, &first).is_pending());
    assert!(poll(&mut answer, &second).is_pending());
    promise.succeed(1).unwrap();
    assert_eq!((first_woken.count(), second_woken.count()), (0, 1));
}

#[test]
fn a_replaced_waker_is_dropped() {
    struct Plain;
    impl std::task::Wake for Plain {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    let (_promise, mut answer) = promise::<u32>();
    let first = std::sync::Arc::new(Plain);
    let waker = Waker::from(std::sync::Arc::clone(&first));
    assert!(poll(&mut answer, &waker).is_pending());
    drop(waker);
    assert_eq!(std::sync::Arc::strong_count(&first), 2);
    assert!(poll(&mut answer, Waker::noop()).is_pending());
    assert_eq!(std::sync::Arc::strong_count(&first), 1);
}

#[test]
fn a_dropped_future_lets_its_waker_go_and_is_not_woken() {
    let (promise, mut answer) = promise::<u32>();
    let (waker, woken) = counting_waker();
    assert!(poll(&mut answer, &waker).is_pending());
    drop(answer);
    promise.succeed(1).unwrap();
    assert_eq!(woken.count(), 0);
}

#[test]
fn cancellation_and_abandonment_wake_too() {
    let (_promise, answer) = promise::<u32>();
    let mut answer = answer.share().unwrap();
    let (waker, woken) = counting_waker();
    assert!(poll(&mut answer, &waker).is_pending());
    assert!(answer.cancel());
    assert_eq!(woken.count(), 1);
    assert!(matches!(
        poll(&mut answer, &waker),
        Poll::Ready(Err(WaitError::Cancelled))
    ));
    let (promise, mut answer) = promise::<u32>();
    assert!(poll(&mut answer, &waker).is_pending());
    drop(promise);
    assert_eq!(woken.count(), 2);
    assert!(matches!(
        poll(&mut answer, &waker),
        Poll::Ready(Err(WaitError::Failed(_)))
    ));
}

#[test]
fn becomes_ready_only_after_the_listeners_on_the_home() {
    let home = Loop::new("home");
    let held = home.hold();
    let (promise, mut answer) = home.promise::<u32>();
    let (waker, woken) = counting_waker();
    answer.on_complete(|_| ());
    assert!(poll(&mut answer, &waker).is_pending());
    promise.succeed(1).unwrap();
    assert!(
        poll(&mut answer, &waker).is_pending(),
        "a listener still has to see it"
    );
    held.open();
    woken.wait_for(1);
    assert!(matches!(poll(&mut answer, &waker), Poll::Ready(Ok(1))));
}

#[test]
fn two_tasks_poll_a_shared_completion() {
    let (promise, answer) = promise::<String>();
    let mut first = answer.share().unwrap();
    let mut second = first.clone();
    let (waker, woken) = counting_waker();
    let (other, other_woken) = counting_waker();
    assert!(poll(&mut first, &waker).is_pending());
    assert!(poll(&mut second, &other).is_pending());
    assert!(poll(&mut second, &other).is_pending());
    promise.succeed("both".to_owned()).unwrap();
    assert_eq!((woken.count(), other_woken.count()), (1, 1));
    for answer in [&mut first, &mut second] {
        assert!(matches!(poll(answer, &waker), Poll::Ready(Ok(value)) if value == "both"));
    }
}

#[test]
fn a_guard_is_a_future_that_cancels_when_it_is_dropped() {
    let (promise, answer) = promise::<u32>();
    let mut guard = answer.cancel_on_drop();
    let (waker, _) = counting_waker();
    assert!(poll(&mut guard, &waker).is_pending());
    drop(guard);
    assert!(promise.is_cancelled());
}

#[test]
fn works_under_tokio_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (promise, answer) = promise::<u32>();
    let (other, second) = tidegate_promise::promise::<u32>();
    let worker = thread(move || promise.succeed(20).unwrap());
    let sum = runtime.block_on(async move {
        let task = tokio::spawn(async move { second.await.unwrap() });
        tokio::spawn(async move { other.succeed(1).unwrap() });
        answer.await.unwrap() + task.await.unwrap()
    });
    worker.join().unwrap();
    assert_eq!(sum, 21);
}

#[test]
fn works_under_tokio_with_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let sum: u64 = runtime.block_on(async {
        let mut tasks = Vec::new();
        for n in 0..1_000_u64 {
            let (promise, answer) = promise::<u64>();
            tasks.push(tokio::spawn(async move { answer.await.unwrap() }));
            tokio::spawn(async move { promise.succeed(n).unwrap() });
        }
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 499_500);
}

#[test]
fn works_under_smol() {
    let (promise, answer) = promise::<u32>();
    let shared = answer.share().unwrap();
    let executor = smol::Executor::new();
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let shared = shared.clone();
            executor.spawn(shared)
        })
        .collect();
    let worker = thread(move || promise.fail(Failure::new("no luck")).unwrap());
    smol::block_on(executor.run(async {
        for task in tasks {
            let cause = task.await.unwrap_err().failure().unwrap();
            assert_eq!(cause.to_string(), "no luck");
        }
    }));
    worker.join().unwrap();
}

#[test]
fn works_on_a_loop_of_another_home() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    answer.on_complete(|_| ());
    home.spawn(move || promise.succeed(5).unwrap());
    assert_eq!(smol::block_on(answer).unwrap(), 5);
}
