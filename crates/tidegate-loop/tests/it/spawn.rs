//! Futures on an event loop: which threads may spawn, poll and drop them.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use tidegate_core::{ManualClock, RejectReason};
use tidegate_loop::EventLoop;
use tidegate_promise::promise;
use tidegate_testkit::{Counter, DropCount, Gate, Log};

use crate::{SECOND, end, hold, home, on, watched};

/// A future that is ready after `turn_on`. It keeps its last waker.
#[derive(Clone, Default)]
struct Switch {
    state: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Switch {
    fn turn_on(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Switch {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_future_spawned_outside_runs_on_the_loop() {
    let (home, _clock) = home();
    let handle = home.clone();
    let answer = home.spawn(async move { handle.is_current() }).unwrap();
    assert!(answer.wait().unwrap());
}

#[test]
fn a_future_spawned_inside_runs_on_the_loop() {
    let (home, _clock) = home();
    let handle = home.clone();
    let answer = home.submit(move || handle.spawn(async { 7 }).unwrap());
    assert_eq!(answer.unwrap().wait().unwrap().wait().unwrap(), 7);
}

#[test]
fn a_local_future_need_not_be_send() {
    let (home, _clock) = home();
    let (switch, log) = (Switch::default(), Log::new());
    let (turn, seen) = (switch.clone(), log.clone());
    let answer = home.submit(move || {
        let shared = Rc::new(Cell::new(1));
        let here = EventLoop::current().unwrap();
        let other = Rc::clone(&shared);
        let first = here.spawn_local(async move {
            turn.await;
            seen.push(EventLoop::current().is_some());
            other.set(other.get() + 1);
            other.get()
        });
        shared.set(10);
        first.unwrap()
    });
    let answer = answer.unwrap().wait().unwrap();
    home.settle();
    assert!(!answer.is_done());
    switch.turn_on();
    assert_eq!(answer.wait().unwrap(), 11);
    assert_eq!(log.take(), [true]);
}

#[test]
fn a_local_future_off_the_loop_comes_back() {
    let (home, clock) = home();
    let shared = Rc::new(7);
    let refused = home.spawn_local(async move { *shared }).unwrap_err();
    assert!(refused.to_string().contains("use `spawn` elsewhere"));
    let mut future = Box::pin(refused.0);
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(7));
    let other = on(&clock, "other");
    let refused = other.submit(move || home.spawn_local(async {}).is_err());
    assert!(refused.unwrap().wait().unwrap());
}

#[test]
fn wakes_from_other_threads_and_from_itself() {
    let (home, _clock) = home();
    for _ in 0..200 {
        let switch = Switch::default();
        let answer = home.spawn(switch.clone()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| switch.turn_on());
        });
        answer.wait().unwrap();
    }
    let mut left = 1000;
    let answer = home.spawn(poll_fn(move |cx| {
        left -= 1;
        cx.waker().wake_by_ref();
        if left == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    answer.unwrap().wait().unwrap();
}

#[test]
fn many_wakes_before_a_poll_are_one_poll() {
    let (home, _clock) = home();
    let (polls, slot) = (Counter::new(), Arc::new(Mutex::new(None)));
    let (count, lent) = (polls.clone(), Arc::clone(&slot));
    let _never = home.spawn(poll_fn(move |cx| {
        count.hit();
        *lent.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    }));
    home.settle();
    let (waker, gate): (Waker, _) = (slot.lock().unwrap().clone().unwrap(), hold(&home));
    for _ in 0..10 {
        waker.wake_by_ref();
    }
    gate.open();
    home.settle();
    assert_eq!(polls.count(), 2);
}

#[test]
fn a_future_that_always_wakes_itself_starves_no_task() {
    let (home, _clock) = home();
    let forever = home.spawn(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let forever = forever.unwrap();
    for number in 0..100 {
        assert_eq!(home.submit(move || number).unwrap().wait().unwrap(), number);
    }
    let timer = home.schedule(std::time::Duration::ZERO, || 1).unwrap();
    assert_eq!(timer.wait().unwrap(), 1);
    assert!(forever.cancel());
    home.settle();
}

/// A value that logs whether it is dropped on the event loop.
struct Where(EventLoop, Log<bool>);

impl Drop for Where {
    fn drop(&mut self) {
        self.1.push(self.0.is_current());
    }
}

#[test]
fn cancelling_drops_the_future_on_the_loop() {
    let (home, _clock) = home();
    let log = Log::new();
    let held = Where(home.clone(), log.clone());
    let answer = home.spawn(async move {
        let _held = held;
        pending::<()>().await;
    });
    let answer = answer.unwrap();
    home.settle();
    assert_eq!(home.metrics().futures, 1);
    assert!(answer.cancel() && answer.is_cancelled());
    home.settle();
    assert_eq!(log.take(), [true]);
    assert_eq!(home.metrics().futures, 0);
}

#[test]
fn a_future_cancelled_before_its_first_poll_is_never_polled() {
    let (home, _clock) = home();
    let (polls, log, gate) = (Counter::new(), Log::new(), hold(&home));
    let (count, held) = (polls.clone(), Where(home.clone(), log.clone()));
    let answer = home.spawn(async move {
        let _held = held;
        count.hit();
    });
    assert!(answer.unwrap().cancel());
    gate.open();
    home.settle();
    assert_eq!((polls.count(), log.take()), (0, vec![true]));
    assert_eq!(home.metrics().futures, 0);
}

#[test]
fn dropping_the_completion_detaches() {
    let (home, _clock) = home();
    let (switch, done) = (Switch::default(), Gate::new());
    let (turn, open) = (switch.clone(), done.clone());
    drop(home.spawn(async move {
        turn.await;
        open.open();
    }));
    home.settle();
    switch.turn_on();
    done.wait();
}

#[test]
fn a_panic_is_the_failure_of_the_completion() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let switch = Switch::default();
    let turn = switch.clone();
    let answer = home.spawn(async move {
        turn.await;
        panic!("on purpose");
    });
    let answer: tidegate_promise::Completion<()> = answer.unwrap();
    home.settle();
    switch.turn_on();
    let failure = answer.wait().unwrap_err().failure().unwrap();
    assert!(failure.is_panic() && failure.to_string().contains("on purpose"));
    assert!(received.is_empty());
    home.settle();
    assert_eq!(home.metrics().futures, 0);
}

#[test]
fn awaits_the_completion_of_another_loop() {
    let (home, clock) = home();
    let other = on(&clock, "other");
    let there = other.clone();
    let answer = home.spawn(async move {
        let first = there.submit(|| 20).unwrap().await.unwrap();
        let second = there.schedule(SECOND, || 22).unwrap().await.unwrap();
        first + second
    });
    clock.advance(SECOND);
    assert_eq!(answer.unwrap().wait().unwrap(), 42);
}

#[test]
fn awaits_a_promise_that_is_completed_anywhere() {
    let (home, _clock) = home();
    let (promise, there) = promise::<u32>();
    let answer = home.spawn(there).unwrap();
    home.settle();
    promise.succeed(7).unwrap();
    assert_eq!(answer.wait().unwrap().unwrap(), 7);
}

#[test]
fn a_full_loop_gives_the_future_back() {
    let clock = ManualClock::new();
    let home = crate::builder(&clock, "home").bound(16).build().unwrap();
    let gate = hold(&home);
    while home.execute(|| ()).is_ok() {}
    let drops = Counter::new();
    let captured = DropCount::new(&drops);
    let refused = home.spawn(async move {
        let _captured = captured;
        7
    });
    let refused = refused.unwrap_err();
    assert_eq!((refused.why(), drops.count()), (RejectReason::Full, 0));
    gate.open();
    home.settle();
    let answer = home.spawn(refused.into_inner()).unwrap();
    assert_eq!((answer.wait().unwrap(), drops.count()), (7, 1));
}

#[test]
fn live_futures_are_dropped_on_their_loop_at_the_end() {
    let (home, _clock) = home();
    let log = Log::new();
    let held = Where(home.clone(), log.clone());
    let sent = home.spawn(async move {
        let _held = held;
        pending::<()>().await;
    });
    let (held, handle) = (Where(home.clone(), log.clone()), home.clone());
    let local = home.submit(move || {
        let future = async move {
            let _held = (Rc::new(1), held);
            pending::<()>().await;
        };
        handle.spawn_local(future).unwrap()
    });
    let (sent, local) = (sent.unwrap(), local.unwrap().wait().unwrap());
    assert_eq!(end(&home).dropped, 2);
    assert_eq!(log.take(), [true, true]);
    assert!(sent.is_cancelled() && local.is_cancelled());
}

/// A value whose drop uses the event loop and then panics.
struct Troublesome(EventLoop, Counter);

impl Drop for Troublesome {
    fn drop(&mut self) {
        self.1.hit();
        let _ = self.0.spawn(async {});
        let _ = self.0.execute(|| ());
        let _ = EventLoop::current().map(|here| here.spawn_local(async {}).map(drop));
        panic!("on purpose, in a drop");
    }
}

#[test]
fn futures_whose_drop_uses_the_loop_and_panics_do_no_harm() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let drops = Counter::new();
    let stuck = |_: u32| {
        let held = Troublesome(home.clone(), drops.clone());
        let answer = home.spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        answer.unwrap()
    };
    let cancelled = stuck(0);
    home.settle();
    assert!(cancelled.cancel());
    home.settle();
    assert_eq!((drops.count(), received.len()), (1, 1));
    assert_eq!(home.metrics().futures, 0, "its place is free again");
    let left = [stuck(1), stuck(2), stuck(3)];
    home.settle();
    assert_eq!(end(&home).dropped, 3);
    assert_eq!(drops.count(), 4);
    assert!(left.iter().all(|one| one.is_cancelled()));
}

#[test]
fn a_ready_future_whose_drop_panics_fails_its_completion() {
    struct Ready(bool);
    impl Future for Ready {
        type Output = u32;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            self.0 = true;
            Poll::Ready(7)
        }
    }
    impl Drop for Ready {
        fn drop(&mut self) {
            assert!(!self.0, "on purpose, in a drop");
        }
    }
    let (home, _clock) = home();
    let answer = home.spawn(Ready(false)).unwrap();
    assert!(answer.wait().unwrap_err().failure().unwrap().is_panic());
    home.settle();
    assert_eq!(home.metrics().futures, 0);
}

#[test]
fn a_handed_back_future_that_runs_on_another_thread_is_cancelled_not_lost() {
    let (home, clock) = home();
    let other = on(&clock, "other");
    let gate = hold(&home);
    let log = Log::new();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let held = Where(home.clone(), log.clone());
        let answer = home.spawn(async move {
            let _held = held;
            drop(EventLoop::current());
            pending::<()>().await;
        });
        answers.push(answer.unwrap());
    }
    let ended = home.shutdown(tidegate_loop::Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let mut tasks = ended.wait().unwrap().handed_back.take();
    assert_eq!(tasks.len(), 2);
    tasks.remove(0).run();
    other.execute_task(tasks.remove(0)).unwrap();
    other.settle();
    assert_eq!(log.take(), [false, false]);
    assert!(answers.iter().all(|answer| answer.is_cancelled()));
}

#[test]
fn a_late_wake_of_a_finished_future_does_not_touch_its_successor() {
    let (home, _clock) = home();
    let lent = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&lent);
    let first = home.spawn(poll_fn(move |cx| {
        *slot.lock().unwrap() = Some(cx.waker().clone());
        Poll::Ready(())
    }));
    first.unwrap().wait().unwrap();
    let (polls, count) = Counter::pair();
    let _second = home.spawn(poll_fn(move |_| {
        count.hit();
        Poll::<()>::Pending
    }));
    home.settle();
    let waker: Waker = lent.lock().unwrap().take().unwrap();
    waker.wake();
    home.settle();
    assert_eq!(polls.count(), 1);
}
