//! `block_on`: a future on the calling thread, which drives an event loop meanwhile.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::{Blocking, ManualClock, Task};
use tidegate_loop::{
    BlockOnError, EventLoop, Lifecycle, Quiet, RoamingConfig, block_on, sleep, timeout,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Promise, WaitError, promise};
use tidegate_testkit::{Counter, DropCount, Gate, Log, rounds};

use crate::{SECOND, builder, home};

/// Runs `future` with `block_on` on a manual clock, while another thread advances the clock.
fn on_a_manual_clock<F: Future>(future: F) -> Result<F::Output, BlockOnError> {
    let (clock, done) = (ManualClock::new(), Gate::new());
    thread::scope(|scope| {
        let (at, over) = (clock.clone(), done.clone());
        scope.spawn(move || {
            // The thread of the future is a member of the clock: a step waits until it sleeps.
            tidegate_testkit::until("the future to be ready", || {
                at.advance(SECOND);
                over.is_open()
            });
        });
        let output = builder(&clock, "main").block_on(future);
        done.open();
        output
    })
}

#[test]
fn the_future_may_borrow_and_need_not_be_send() {
    let text = String::from("hello");
    let length = Rc::new(Cell::new(0));
    let seen = block_on(async {
        length.set(text.len());
        Rc::clone(&length)
    });
    assert_eq!(seen.unwrap().get(), 5);
    assert_eq!(text, "hello");
}

#[test]
fn the_calling_thread_is_the_loops_meanwhile() {
    let me = thread::current().id();
    let inside = block_on(async move {
        let here = EventLoop::current().unwrap();
        let same = thread::current().id() == me;
        (here.name().to_owned(), same, wait_policy())
    });
    let expected = ("block_on".to_owned(), true, WaitPolicy::Loop);
    assert_eq!(inside.unwrap(), expected);
    assert!(EventLoop::current().is_none());
    assert_eq!(wait_policy(), WaitPolicy::Free);
}

#[test]
fn timers_and_local_futures_run_beside_the_future() {
    let output = on_a_manual_clock(async {
        let here = EventLoop::current().unwrap();
        let local = Rc::new(20);
        let other = here.spawn_local(async move {
            sleep(SECOND).await.unwrap();
            *local
        });
        sleep(2 * SECOND).await.unwrap();
        other.unwrap().await.unwrap() + 22
    });
    assert_eq!(output.unwrap(), 42);
}

#[test]
fn another_thread_wakes_the_future() {
    let (promise, answer) = promise::<u32>();
    let (begun, arrived) = Gate::pair();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            arrived.wait();
            promise.succeed(7).unwrap();
        });
        block_on(async move {
            begun.open();
            answer.await.unwrap()
        })
    });
    assert_eq!(output.unwrap(), 7);
}

#[test]
fn no_wake_up_of_another_thread_is_lost() {
    let many = rounds(2_000);
    let (sender, receiver) = mpsc::channel::<Promise<usize>>();
    let sum = thread::scope(|scope| {
        scope.spawn(move || {
            for promise in receiver {
                promise.succeed(7).unwrap();
            }
        });
        block_on(async move {
            let mut sum = 0;
            for _ in 0..many {
                let (promise, answer) = promise();
                sender.send(promise).unwrap();
                sum += answer.await.unwrap();
            }
            sum
        })
    });
    assert_eq!(sum.unwrap(), 7 * many);
}

#[test]
fn a_future_that_wakes_itself_starves_nothing() {
    let ran = Counter::new();
    let polls = Cell::new(0);
    let output = block_on(async {
        let here = EventLoop::current().unwrap();
        here.execute(ran.hits()).unwrap();
        poll_fn(|cx| {
            polls.set(polls.get() + 1);
            if ran.count() > 0 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    });
    output.unwrap();
    assert!(polls.get() > 1);
}

#[test]
fn nested_use_is_an_error_value() {
    let inner = block_on(async { block_on(async { 1 }) }).unwrap();
    let text = inner.unwrap_err().to_string();
    assert!(text.contains("the event loop `block_on`"), "{text}");
    // Also where blocking is allowed: the outer future could not go on.
    let inner = block_on(async { Blocking::allow(|| block_on(async { 1 })) }).unwrap();
    assert!(matches!(inner, Err(BlockOnError::OnLoop { .. })));
}

#[test]
fn the_thread_of_a_loop_and_a_thread_that_must_not_wait_are_refused() {
    let (home, _clock) = home();
    let refused = home.submit(|| block_on(async { 1 }).map_err(|why| why.to_string()));
    let text = refused.unwrap().wait().unwrap().unwrap_err();
    assert!(text.contains("the event loop `home`"), "{text}");
    let refused = Blocking::forbid(|| block_on(async { 1 }));
    assert!(matches!(refused, Err(BlockOnError::Forbidden)));
}

#[test]
fn a_thread_of_a_pool_may_call_it_also_on_the_clock_of_the_pool() {
    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").max(1).clock(&clock);
    let pool = pool.build().unwrap();
    let at = clock.clone();
    let slept = pool.submit(move || {
        let output = builder(&at, "main").block_on(async {
            sleep(SECOND).await.unwrap();
            EventLoop::current().unwrap().name().to_owned()
        });
        (output.unwrap(), wait_policy())
    });
    let slept = slept.unwrap();
    tidegate_testkit::until("the sleep to be over", || {
        clock.advance(SECOND);
        slept.is_done()
    });
    assert_eq!(slept.wait().unwrap(), ("main".to_owned(), WaitPolicy::Free));
}

#[test]
fn a_thread_that_drives_a_roaming_loop_is_refused_and_its_tasks_may_call_it() {
    let pool = Arc::new(WorkerPool::builder("workers").max(4).build().unwrap());
    let config = RoamingConfig::new(Arc::clone(&pool) as _);
    let home = EventLoop::builder("home").build_roaming(&config).unwrap();
    let (refused, allowed) = (Log::new(), Log::new());
    let to = refused.clone();
    let drives = move || to.push(block_on(async { 1 }).map_err(|why| why.to_string()));
    home.execute_task(Task::non_blocking(drives)).unwrap();
    let to = allowed.clone();
    home.execute(move || to.push(block_on(async { 1 }).unwrap()))
        .unwrap();
    refused.wait_for(1);
    allowed.wait_for(1);
    let text = refused.take().remove(0).unwrap_err();
    assert!(text.contains("the event loop `home`"), "{text}");
    assert_eq!(allowed.take(), [1]);
}

#[test]
fn a_blocking_wait_inside_is_an_error_value() {
    let (_promise, answer) = promise::<u32>();
    let waited = block_on(async move { answer.wait() }).unwrap();
    assert!(matches!(waited, Err(WaitError::Refused(_))));
}

#[test]
fn a_panic_of_the_future_resumes_in_the_caller_after_the_end() {
    let hooks = Counter::new();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        block_on(async {
            let here = EventLoop::current().unwrap();
            let hook = hooks.hits();
            here.add_shutdown_hook("last", hook).unwrap();
            if hooks.count() == 0 {
                panic!("the future fails");
            }
        })
    }));
    let payload = caught.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the future fails"));
    assert_eq!(hooks.count(), 1, "the loop was shut down");
    assert!(EventLoop::current().is_none());
    assert_eq!(
        block_on(async { 1 }).unwrap(),
        1,
        "the thread is free again"
    );
}

#[test]
fn at_the_end_submitted_tasks_run_and_pending_futures_are_dropped() {
    let (ran, drops) = (Counter::new(), Counter::new());
    let (dropped, hits) = (DropCount::new(&drops), ran.hits());
    let (home, pending_one, timer) = block_on(async move {
        let here = EventLoop::current().unwrap();
        let one = here.spawn_local(async move {
            let _dropped = dropped;
            pending::<()>().await;
        });
        let timer = here.schedule(Duration::from_secs(3600), || ()).unwrap();
        here.execute(hits).unwrap();
        (here, one.unwrap(), timer)
    })
    .unwrap();
    assert_eq!((ran.count(), drops.count()), (1, 1));
    assert!(!matches!(pending_one.wait(), Ok(())));
    assert!(timer.is_cancelled());
    assert_eq!(home.lifecycle(), Lifecycle::Terminated);
    assert!(home.execute(|| ()).unwrap_err().is_shutdown());
}

#[test]
fn a_shutdown_before_the_future_is_ready_is_an_error_and_drops_it() {
    let drops = Counter::new();
    let dropped = DropCount::new(&drops);
    let output = block_on(async move {
        let _dropped = dropped;
        let here = EventLoop::current().unwrap();
        drop(here.shutdown(Quiet::none(SECOND)));
        pending::<u32>().await
    });
    assert!(matches!(output, Err(BlockOnError::Shutdown)));
    assert_eq!(drops.count(), 1);
}

/// Panics when it is dropped, and logs whether its thread drives an event loop then.
struct PanicsInDrop(Log<bool>);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        self.0.push(EventLoop::current().is_some());
        panic!("the drop fails");
    }
}

#[test]
fn a_future_is_dropped_on_its_loop_and_a_panic_of_that_resumes_in_the_caller() {
    let log = Log::new();
    for is_ready in [true, false] {
        let value = PanicsInDrop(log.clone());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            block_on(async move {
                // Dropped with the future: the reference keeps it in there.
                let value = &value;
                let here = EventLoop::current().unwrap();
                drop(here.shutdown(Quiet::none(SECOND)));
                if !is_ready {
                    pending::<()>().await;
                }
                let _ = value;
            })
        }));
        let payload = caught.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"the drop fails"));
        assert!(EventLoop::current().is_none());
    }
    assert_eq!(log.take(), [true, true]);
}

#[test]
fn a_shutdown_ends_a_future_that_wakes_itself_for_ever() {
    let output = block_on(async {
        let here = EventLoop::current().unwrap();
        drop(here.shutdown(Quiet::none(Duration::ZERO)));
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<u32>::Pending
        })
        .await
    });
    assert!(matches!(output, Err(BlockOnError::Shutdown)));
}

#[test]
fn a_future_that_is_never_woken_ends_by_its_timeout_on_a_manual_clock() {
    let output = on_a_manual_clock(timeout(SECOND, pending::<()>()));
    assert!(output.unwrap().is_err(), "it timed out");
}

#[test]
fn a_loop_that_is_asked_to_give_its_thread_back_keeps_it() {
    let (promise, answer) = promise::<u32>();
    let (loops, given) = Log::pair();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            given.wait_for(1);
            let home: EventLoop = given.take().remove(0);
            assert!(home.try_suspend());
            promise.succeed(7).unwrap();
        });
        block_on(async move {
            loops.push(EventLoop::current().unwrap());
            answer.await.unwrap()
        })
    });
    assert_eq!(output.unwrap(), 7);
}

#[test]
fn a_manual_loop_can_be_driven_to_the_end_of_a_future() {
    let (home, mut hand) = EventLoop::builder("home").build_manual().unwrap();
    hand.turn();
    let answer = home.submit(|| 7).unwrap();
    assert_eq!(hand.block_on(answer).unwrap().unwrap(), 7);
    assert_eq!(home.lifecycle(), Lifecycle::Terminated);
    let (home, mut hand) = EventLoop::builder("home").build_manual().unwrap();
    drop(home.shutdown(Quiet::none(SECOND)));
    hand.run_until_idle();
    assert!(matches!(
        hand.block_on(async { 1 }),
        Err(BlockOnError::Shutdown)
    ));
}

#[test]
fn a_drop_inside_is_refused_and_a_drop_in_a_panic_is_not() {
    /// Calls `block_on` when it is dropped.
    struct Blocks(Log<Option<u32>>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            self.0.push(block_on(async { 1 }).ok());
        }
    }
    let log = Log::new();
    let inside = Blocks(log.clone());
    // Dropped by the event loop, since its future never ends.
    let spawned = Blocks(log.clone());
    block_on(async move {
        let _inside = inside;
        let here = EventLoop::current().unwrap();
        let spawned = here.spawn_local(async move {
            let _spawned = spawned;
            pending::<()>().await;
        });
        drop(spawned.unwrap());
    })
    .unwrap();
    assert_eq!(log.take(), [None, None], "the thread drives a loop");
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _unwound = Blocks(log.clone());
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert_eq!(log.take(), [Some(1)], "a thread that unwinds may wait");
}

#[test]
fn a_hundred_threads_at_once() {
    let answers = thread::scope(|scope| {
        let mut before: Option<Promise<usize>> = None;
        let mut all = Vec::new();
        // Each future waits for the next one, and the last of them starts last.
        for at in 0..100 {
            let (promise, answer) = promise::<usize>();
            let wakes = before.replace(promise);
            all.push(scope.spawn(move || {
                let got = block_on(answer).unwrap().unwrap();
                if let Some(other) = wakes {
                    other.succeed(got + 1).unwrap();
                }
                (at, got)
            }));
        }
        before.unwrap().succeed(0).unwrap();
        let answers = all.into_iter().map(|one| one.join().unwrap());
        answers.collect::<Vec<_>>()
    });
    assert!(
        answers.iter().all(|(at, got)| at + got == 99),
        "{answers:?}"
    );
}

#[test]
fn a_waker_may_outlive_its_loop() {
    let kept = Log::new();
    for is_ready in [true, false] {
        let keep = kept.clone();
        let output = block_on(async {
            if !is_ready {
                let here = EventLoop::current().unwrap();
                drop(here.shutdown(Quiet::none(SECOND)));
            }
            poll_fn(move |cx| {
                keep.push(cx.waker().clone());
                if is_ready {
                    Poll::Ready(1)
                } else {
                    Poll::Pending
                }
            })
            .await
        });
        assert_eq!(output.ok(), is_ready.then_some(1));
    }
    for waker in kept.take() {
        waker.wake_by_ref();
        thread::scope(|scope| {
            scope.spawn(move || waker.wake());
        });
    }
    assert_eq!(block_on(async { 2 }).unwrap(), 2);
}

/// Completes promises in nested listeners. The innermost waits for a future whose listener would be
/// one too many.
#[test]
fn a_future_in_nested_listeners_hears_of_what_it_maps() {
    fn nest(depth: u32, log: Log<u32>) {
        let (promise, answer) = promise::<u32>();
        if depth > 0 {
            answer.on_complete(move |_| nest(depth - 1, log));
            return promise.succeed(0).unwrap();
        }
        let output = block_on(async move {
            let mapped = answer.map(|value| value + 1);
            let here = EventLoop::current().unwrap();
            here.execute(move || promise.succeed(7).unwrap()).unwrap();
            mapped.await.unwrap()
        });
        log.push(output.unwrap());
    }
    let log = Log::new();
    nest(8, log.clone());
    assert_eq!(log.take(), [8]);
}
