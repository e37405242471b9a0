//! Shutdown against concurrent events: accepted tasks run or are handed back, nothing starts after
//! the deadline, and all waiters are notified.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, Task, ThreadBuilder};
use tidegate_loop::{EventLoop, EventLoopGroup, Quiet, ShutdownError};
use tidegate_pool::{NotStartedError, WorkerPool};
use tidegate_promise::{Completion, Failure, Outcome, WaitError};
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

use crate::{SECOND, UnhandledLog, builder, end, hold, home};

fn manual(clock: &ManualClock) -> (EventLoop, tidegate_loop::ManualLoop) {
    builder(clock, "by hand").build_manual().unwrap()
}

/// Requests a shutdown and lets the deadline pass, but not so far that the event loop counts as
/// stuck.
fn end_and_be_late(home: &EventLoop, clock: &ManualClock) {
    drop(home.shutdown(Quiet::none(SECOND)));
    clock.jump(SECOND);
}

#[test]
fn a_due_timer_does_not_begin_after_the_deadline() {
    let clock = ManualClock::new();
    let (home, mut manual_loop) = manual(&clock);
    let log = Log::new();
    let (first, handle, late) = (log.clone(), home.clone(), clock.clone());
    let a = home.schedule(SECOND, move || {
        first.push("a");
        end_and_be_late(&handle, &late);
    });
    let b = home.schedule(SECOND, log.pushes("b")).unwrap();
    let c = home.schedule_coarse(SECOND, log.pushes("c")).unwrap();
    manual_loop.run_until_idle();
    clock.jump(SECOND * 2);
    manual_loop.run_until_idle();
    assert_eq!(log.take(), ["a"]);
    assert!(a.unwrap().is_done() && b.is_cancelled() && c.is_cancelled());
    assert_eq!(home.termination().wait().unwrap().cancelled, 2);
}

#[test]
fn nothing_of_a_later_kind_begins_after_the_deadline() {
    let clock = ManualClock::new();
    let (home, mut manual_loop) = manual(&clock);
    let log = Log::new();
    let (handle, late, own) = (home.clone(), clock.clone(), log.clone());
    let timer = home.schedule(SECOND, move || {
        let inner = handle.execute(move || own.push("own"));
        inner.unwrap();
        end_and_be_late(&handle, &late);
    });
    manual_loop.run_until_idle();
    home.execute(log.pushes("lane")).unwrap();
    clock.jump(SECOND);
    manual_loop.run_until_idle();
    assert!(
        timer.unwrap().is_done() && log.is_empty(),
        "{:?}",
        log.take()
    );
    let report = home.termination().wait().unwrap();
    for task in report.handed_back.take() {
        task.run();
    }
    assert_eq!(log.take(), ["own", "lane"]);
}

#[test]
fn a_hand_that_is_dropped_hands_its_tasks_back() {
    let clock = ManualClock::new();
    let (home, mut manual_loop) = manual(&clock);
    let (handle, ran) = (home.clone(), Counter::new());
    home.execute(move || handle.execute(ran.hits()).unwrap())
        .unwrap();
    assert!(manual_loop.turn(), "it has given itself a task");
    let answer = home.submit(|| 7).unwrap();
    let ended = home.termination();
    drop(manual_loop);
    let why = ended.wait().unwrap_err().failure().unwrap();
    let ShutdownError::ManualLoopDropped { handed_back } = &why else {
        panic!("{why}");
    };
    assert_eq!(handed_back.len(), 2);
    assert!(why.to_string().contains("2 tasks"), "{why}");
    for task in handed_back.take() {
        task.run();
    }
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn a_timer_of_one_nanosecond_is_not_early() {
    let clock = ManualClock::new();
    let (home, mut manual_loop) = manual(&clock);
    let nanosecond = std::time::Duration::from_nanos(1);
    let timer = home.schedule(nanosecond, || ()).unwrap();
    manual_loop.run_until_idle();
    assert!(!timer.is_done(), "no time has passed");
    clock.jump(nanosecond);
    manual_loop.run_until_idle();
    assert!(timer.is_done());
}

#[test]
fn a_stuck_hook_is_named() {
    let (home, clock) = home();
    let stop = Stop::new();
    home.submit(|| ()).unwrap().wait().unwrap();
    home.add_shutdown_hook("say goodbye", stop.closure())
        .unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    stop.reached();
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    let why = ended.wait().unwrap_err().to_string();
    stop.go_on();
    assert!(why.contains("hook say goodbye"), "{why}");
}

#[test]
fn a_stuck_listener_is_not_called_the_driver() {
    let (home, clock) = home();
    let stop = Stop::new();
    let inside = stop.closure();
    let (promise, answer) = home.promise::<u32>();
    answer.on_complete(move |_| {
        inside();
    });
    promise.succeed(7).unwrap();
    stop.reached();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    let why = ended.wait().unwrap_err().to_string();
    stop.go_on();
    assert!(why.contains("a listener or a future"), "{why}");
}

#[test]
fn what_is_accepted_while_the_end_begins_runs_if_there_is_time() {
    for _ in 0..2000 {
        let home = EventLoop::builder("home").build().unwrap();
        let (ran, ended, all) = (Counter::new(), home.termination(), Barrier::new(4));
        let submit = || {
            all.wait();
            let each = (0..20).map(|_| home.execute(ran.hits()).is_ok());
            each.filter(|&accepted| accepted).count()
        };
        let accepted: usize = thread::scope(|scope| {
            let submits = [(); 3].map(|()| scope.spawn(submit));
            all.wait();
            drop(home.shutdown(Quiet::none(SECOND * 60)));
            submits.map(|one| one.join().unwrap()).iter().sum()
        });
        let report = ended.wait().unwrap();
        let seen = (ran.count(), report.handed_back.len());
        assert_eq!(seen, (accepted as u64, 0));
    }
}

/// Returns a thread builder whose spawner writes to the log and then waits for the gate.
fn slow_start(log: &Log<&'static str>, gate: &Gate) -> ThreadBuilder {
    let (log, gate) = (log.clone(), gate.clone());
    ThreadBuilder::new("slow").spawner(move |job: ThreadJob| {
        log.push("asked");
        gate.wait();
        let thread = thread::Builder::new().spawn(move || job.run());
        thread.map(drop)
    })
}

#[test]
fn a_spawner_may_use_the_loop_that_it_starts() {
    // Taken out at the end, to break the reference cycle of the event loop and its spawner.
    let known = Arc::new(Mutex::new(None::<EventLoop>));
    let (inner, ran) = (Arc::clone(&known), Counter::new());
    let count = ran.clone();
    let threads = ThreadBuilder::new("own").spawner(move |job: ThreadJob| {
        let home = inner.lock().unwrap().clone().unwrap();
        assert!(home.thread_info().is_none(), "it has none yet");
        home.execute(count.hits()).unwrap();
        drop(home.schedule(SECOND * 3600, || ()).unwrap());
        thread::Builder::new().spawn(move || job.run()).map(drop)
    });
    let home = EventLoop::builder("home").threads(threads).build().unwrap();
    *known.lock().unwrap() = Some(home.clone());
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    ran.wait_for(1);
    assert_eq!(end(&home).handed_back.len(), 0);
    known.lock().unwrap().take();
}

#[test]
fn a_spawner_that_blocks_delays_only_callers_that_need_the_thread() {
    let (log, gate) = (Log::new(), Gate::new());
    let home = EventLoop::builder("home").threads(slow_start(&log, &gate));
    let home = home.build().unwrap();
    thread::scope(|scope| {
        // The start ends before the task is pushed, so the event loop may have closed by then. A
        // refused task counts as 7 too.
        let asks = scope.spawn(|| home.submit(|| 7).map_or(7, |answer| answer.wait().unwrap()));
        log.wait_for(1);
        assert!(home.thread_info().is_none() && !home.is_suspended());
        let (promise, answer) = home.promise::<u32>();
        let (notified, count) = Counter::pair();
        answer.on_complete(move |_| count.note());
        promise.succeed(7).unwrap();
        let ended = home.shutdown(Quiet::none(SECOND * 60));
        assert!(!ended.is_done());
        gate.open();
        assert_eq!(asks.join().unwrap(), 7);
        notified.wait_for(1);
        assert_eq!(ended.wait().unwrap().handed_back.len(), 0);
    });
}

#[test]
fn a_name_may_hold_anything() {
    let home = EventLoop::builder("a\0b").build().unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    let thread = ThreadBuilder::new("c\0d").spawn(|| ()).unwrap();
    assert!(!thread.info().name().contains('\0'));
}

#[test]
fn a_panic_without_an_observer_is_reported() {
    let received = UnhandledLog::new();
    let home = EventLoop::builder("home").report_to(received.hook.clone());
    let home = home.build().unwrap();
    // The tasks run after their completions are dropped.
    let (go_on, held) = stuck(&home);
    drop(home.submit(|| panic!("in a task")).unwrap());
    drop(home.spawn(async { panic!("in a future") }).unwrap());
    drop(
        home.schedule(std::time::Duration::ZERO, || panic!("in a timer"))
            .unwrap(),
    );
    let seen = home.submit(|| -> u32 { panic!("seen") }).unwrap();
    go_on.open();
    held.wait().unwrap();
    assert!(seen.wait().is_err());
    end(&home);
    let mut received = received.take();
    received.sort();
    assert_eq!(received.len(), 3, "{received:?}");
    for (what, message) in received
        .iter()
        .zip(["in a future", "in a task", "in a timer"])
    {
        assert!(what.ends_with(message), "{what}");
    }
}

/// Returns `true` if a wait failed because the task never started.
fn never_began<T: std::fmt::Debug>(waited: Result<T, WaitError<Failure>>) -> bool {
    let why = waited.unwrap_err().failure().unwrap();
    why.downcast_ref::<NotStartedError>().is_some()
}

/// Makes the event loop stuck in a task until the gate opens. Returns the gate and the completion
/// of that task.
fn stuck(home: &EventLoop) -> (Gate, Completion<u32>) {
    let stop = Stop::new();
    let inside = stop.closure();
    let held = home.submit(move || {
        inside();
        1
    });
    stop.reached();
    (stop.gate(), held.unwrap())
}

#[test]
fn waiters_behind_a_stuck_task_are_notified_of_the_end() {
    let home = EventLoop::builder("home").build().unwrap();
    let (gate, held) = stuck(&home);
    let early = [(); 2].map(|()| home.submit(|| 7).unwrap());
    let late = [(); 3].map(|()| home.submit(|| 7).unwrap());
    let ended = home.shutdown(Quiet::none(std::time::Duration::ZERO));
    thread::scope(|scope| {
        let waits = early.map(|answer| scope.spawn(move || answer.wait()));
        let begun = scope.spawn(move || held.wait());
        assert!(ended.wait().is_err(), "stuck");
        for waited in waits {
            assert!(never_began(waited.join().unwrap()));
        }
        let [answer, mut timed, mut polled] = late;
        assert!(never_began(answer.wait()));
        assert!(never_began(timed.wait_timeout(SECOND * 3600)));
        assert!(timed.is_done() && !timed.is_cancelled(), "it has failed");
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(polled) = Pin::new(&mut polled).poll(&mut cx) else {
            panic!("it will never be ready otherwise");
        };
        assert!(never_began(polled));
        gate.open();
        assert_eq!(begun.join().unwrap().unwrap(), 1, "this one has begun");
    });
}

#[test]
fn a_wait_by_a_manual_clock_is_ended_too() {
    let (home, clock) = home();
    let (gate, held) = stuck(&home);
    let answer = home.submit(|| 7).unwrap();
    let shared = home.submit(|| 7).unwrap().share().unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    thread::scope(|scope| {
        let waits = scope.spawn(move || answer.wait());
        let shares = scope.spawn(|| shared.wait());
        clock.jump(SECOND * 20);
        assert!(never_began(waits.join().unwrap()) && never_began(shares.join().unwrap()));
    });
    assert!(ended.wait().is_err());
    gate.open();
    assert_eq!(held.wait().unwrap(), 1);
}

#[test]
fn what_was_handed_back_and_taken_can_be_waited_for() {
    let (home, clock) = home();
    let (gate, ran) = (hold(&home), Counter::new());
    let submit = |ran: Counter| home.submit(move || ran.hit()).unwrap();
    let (mut given_up, mut open) = (submit(ran.clone()), submit(ran.clone()));
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    assert!(
        never_began(given_up.wait_timeout(SECOND)),
        "it was not taken"
    );
    let tasks = report.handed_back.take();
    drop((home, ended, report));
    let polled = Pin::new(&mut open).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it is taken now");
    tasks.into_iter().for_each(Task::run);
    assert_eq!(
        (open.wait().unwrap(), ran.count()),
        (1, 1),
        "the other was given up"
    );
}

#[test]
fn what_a_group_hands_back_is_taken_from_its_report() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder("io").loops(2).clock(&clock).build();
    let group = group.unwrap();
    let held: Vec<_> = group.iter().map(hold).collect();
    let mut answers: Vec<_> = group.iter().map(|one| one.submit(|| 7).unwrap()).collect();
    let ended = group.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    held.iter().for_each(Gate::open);
    let report = ended.wait().unwrap();
    let last = answers.pop().unwrap();
    assert!(never_began(last.wait()), "it was not taken");
    for task in report.handed_back.take() {
        task.run();
    }
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), 7);
    }
}

#[test]
fn a_stuck_loop_does_not_cost_a_group_what_the_others_hand_back() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder("io").loops(3).clock(&clock).build();
    let group = group.unwrap();
    let held: Vec<_> = group.iter().map(hold).collect();
    let answers: Vec<_> = group.iter().map(|one| one.submit(|| 7).unwrap()).collect();
    let ended = group.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    // The first event loop is stuck, the others end in time.
    held[1..].iter().for_each(Gate::open);
    for timely in group.iter().skip(1) {
        assert_eq!(timely.termination().wait().unwrap().handed_back.len(), 1);
    }
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    let why = ended.wait().unwrap_err().failure().unwrap();
    let handed_back = why.handed_back().unwrap();
    assert_eq!(handed_back.len(), 2);
    handed_back.take().into_iter().for_each(Task::run);
    let mut answers = answers.into_iter();
    assert!(never_began(answers.next().unwrap().wait()), "not taken");
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), 7);
    }
    held[0].open();
}

#[test]
fn waiters_for_a_job_that_a_pool_abandoned_are_notified() {
    let pool = WorkerPool::builder("workers").max(1).build().unwrap();
    let stop = Stop::new();
    let inside = stop.closure();
    let held = pool.submit(move || {
        inside();
        1
    });
    stop.reached();
    let [early, late] = [(); 2].map(|()| pool.submit(|| 7).unwrap());
    thread::scope(|scope| {
        let waits = scope.spawn(move || early.wait());
        let report = pool.shutdown(std::time::Duration::ZERO).wait().unwrap();
        assert_eq!((report.handed_back.len(), report.stuck.len()), (2, 1));
        assert!(never_began(waits.join().unwrap()) && never_began(late.wait()));
        stop.go_on();
        assert_eq!(held.unwrap().wait().unwrap(), 1, "this one has begun");
    });
}

/// A waker that counts its calls.
struct Woken(Counter);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.hit();
    }
}

/// Polls once with a waker that counts its calls; `None` if the future is pending.
fn poll_once<F: Future + Unpin>(future: &mut F, woken: &Counter) -> Option<F::Output> {
    let waker = Arc::new(Woken(woken.clone())).into();
    match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn a_future_that_is_pending_behind_a_stuck_task_is_woken_by_the_end() {
    let (home, clock) = home();
    let (gate, held) = stuck(&home);
    let mut answer = home.submit(|| 7).unwrap();
    let mut timer = home.schedule(SECOND * 3600, || 7).unwrap();
    let mut shared = home.submit(|| 7).unwrap().share().unwrap();
    let mut other = shared.clone();
    let forgotten = Counter::new();
    let mut dropped = home.submit(|| 7).unwrap();
    assert!(poll_once(&mut dropped, &forgotten).is_none());
    drop(dropped);
    let woken = [(); 4].map(|()| Counter::new());
    assert!(poll_once(&mut answer, &woken[0]).is_none());
    assert!(poll_once(&mut timer, &woken[1]).is_none());
    assert!(poll_once(&mut shared, &woken[2]).is_none());
    assert!(poll_once(&mut other, &woken[3]).is_none());
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    woken.iter().for_each(|woken| woken.wait_for(1));
    assert!(never_began(poll_once(&mut answer, &woken[0]).unwrap()));
    assert!(never_began(poll_once(&mut timer, &woken[1]).unwrap()));
    assert!(never_began(poll_once(&mut shared, &woken[2]).unwrap()));
    assert!(never_began(poll_once(&mut other, &woken[3]).unwrap()));
    assert_eq!(forgotten.count(), 0);
    assert!(ended.wait().is_err());
    gate.open();
    assert_eq!(held.wait().unwrap(), 1);
}

#[test]
fn a_future_that_is_pending_at_a_timely_end_is_woken_unless_its_task_was_taken() {
    let (home, clock) = home();
    let gate = hold(&home);
    let (mut left, mut taken) = (home.submit(|| 7).unwrap(), home.submit(|| 8).unwrap());
    let (woken, again) = (Counter::new(), Counter::new());
    assert!(poll_once(&mut left, &woken).is_none() && poll_once(&mut taken, &again).is_none());
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    woken.wait_for(1);
    again.wait_for(1);
    assert!(never_began(poll_once(&mut left, &woken).unwrap()));
    let tasks = report.handed_back.take();
    assert!(poll_once(&mut taken, &again).is_none(), "it may run yet");
    tasks.into_iter().for_each(Task::run);
    again.wait_for(2);
    assert_eq!(poll_once(&mut taken, &again).unwrap().unwrap(), 8);
}

#[test]
fn listeners_of_tasks_that_a_stuck_loop_abandoned_are_called() {
    let (home, clock) = home();
    let (gate, held) = stuck(&home);
    let (log, ran) = (Log::new(), Counter::new());
    let listen = |name: &'static str| {
        let log = log.clone();
        move |outcome: Outcome<&u64, &Failure>| {
            let cause = outcome.failure().unwrap();
            assert!(cause.downcast_ref::<NotStartedError>().is_some());
            log.push(name);
        }
    };
    let submit = || {
        let ran = ran.clone();
        home.submit(move || ran.hit()).unwrap()
    };
    let kept = submit();
    kept.on_complete(listen("first"));
    kept.on_complete(listen("second"));
    let removed = kept.on_complete(listen("removed"));
    assert!(kept.remove_listener(&removed));
    submit().finally(listen("finally"));
    let shared = submit().share().unwrap();
    shared.on_complete(listen("shared"));
    drop(shared.listen(listen("dropped")));
    let mapped = submit().map(|number| number + 1);
    let (late, later) = (submit(), submit());
    let (begun, count) = Counter::pair();
    held.on_complete(move |outcome| assert!(outcome.is_success() && count.hit() == 1));
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    log.wait_for(4);
    let mut notified = log.take();
    notified.sort_unstable();
    assert_eq!(notified, ["finally", "first", "second", "shared"]);
    assert!(never_began(kept.wait()) && never_began(shared.wait()) && never_began(mapped.wait()));
    late.on_complete(listen("late"));
    later.finally(listen("later"));
    assert_eq!(log.take(), ["late", "later"], "at once");
    gate.open();
    begun.wait_for(1);
    let why = ended.wait().unwrap_err().failure().unwrap();
    let ShutdownError::Stuck { handed_back, .. } = &why else {
        panic!("{why}");
    };
    until("a task was handed back", || !handed_back.is_empty());
    handed_back.take().into_iter().for_each(Task::run);
    assert_eq!((ran.count(), log.len()), (0, 0), "given up is given up");
}
