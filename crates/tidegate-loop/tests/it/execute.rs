//! Tasks: where they run, in which order, and what happens if they panic.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tidegate_core::internal::at_thread_exit;
use tidegate_core::thread::{ThreadJob, ThreadState};
use tidegate_core::{ManualClock, RejectReason, Task, ThreadBuilder};
use tidegate_loop::{EventLoop, Lifecycle, Quiet};
use tidegate_testkit::{Counter, DropCount, Log, Stop};

use crate::{SECOND, builder, end, hold, home, watched};

/// Returns a thread builder that starts real threads and counts them; it fails while `failing` is
/// set.
fn counted_threads(started: &Counter, failing: &Arc<AtomicBool>) -> ThreadBuilder {
    let (started, failing) = (started.clone(), Arc::clone(failing));
    ThreadBuilder::new("counted").spawner(move |job: ThreadJob| {
        if failing.load(Ordering::SeqCst) {
            return Err(io::Error::other("no threads today"));
        }
        started.hit();
        let thread = thread::Builder::new().name(job.name().to_owned());
        thread.spawn(move || job.run()).map(drop)
    })
}

#[test]
fn no_thread_until_the_first_task() {
    let (started, failing) = (Counter::new(), Arc::default());
    let clock = ManualClock::new();
    let threads = counted_threads(&started, &failing);
    let home = builder(&clock, "home").threads(threads).build().unwrap();
    let (_promise, _answer) = home.promise::<u32>();
    home.add_shutdown_hook("unused", || ()).unwrap();
    assert!(home.remove_shutdown_hook("unused"));
    assert_eq!((started.count(), home.pending_tasks()), (0, 0));
    assert_eq!(home.lifecycle(), Lifecycle::NotStarted);
    home.submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(started.count(), 1);
    assert_eq!(home.lifecycle(), Lifecycle::Started);
}

#[test]
fn one_thread_for_many_first_submitters() {
    for _ in 0..50 {
        let (started, failing) = (Counter::new(), Arc::default());
        let threads = counted_threads(&started, &failing);
        let home = EventLoop::builder("home").threads(threads).build().unwrap();
        let (ran, all) = (Counter::new(), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    all.wait();
                    home.execute(ran.hits()).unwrap();
                });
            }
        });
        ran.wait_for(4);
        assert_eq!(started.count(), 1);
    }
}

#[test]
fn a_failed_start_refuses_every_first_submitter_and_strands_no_task() {
    for _ in 0..50 {
        let (started, failing) = (Counter::new(), Arc::new(AtomicBool::new(true)));
        let threads = counted_threads(&started, &failing);
        let home = EventLoop::builder("home").threads(threads).build().unwrap();
        let (ran, all) = (Counter::new(), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    all.wait();
                    let refused = home.execute(ran.hits()).unwrap_err();
                    assert_eq!(refused.why(), RejectReason::NoThread);
                });
            }
        });
        assert_eq!((home.pending_tasks(), ran.count()), (0, 0));
        assert_eq!(home.lifecycle(), Lifecycle::NotStarted);
        failing.store(false, Ordering::SeqCst);
        home.submit(|| ()).unwrap().wait().unwrap();
        assert_eq!((started.count(), ran.count()), (1, 0));
    }
}

#[test]
fn a_failed_start_refuses_schedules_and_futures_too() {
    let (started, failing) = (Counter::new(), Arc::new(AtomicBool::new(true)));
    let threads = counted_threads(&started, &failing);
    let home = EventLoop::builder("home").threads(threads).build().unwrap();
    let refused = home.schedule(SECOND, || 7).unwrap_err();
    assert_eq!(refused.why(), RejectReason::NoThread);
    assert_eq!(refused.into_inner()(), 7);
    assert_eq!(
        home.spawn(async { 1 }).unwrap_err().why(),
        RejectReason::NoThread
    );
    assert!(home.thread_info().is_none());
    assert_eq!(started.count(), 0);
    end(&home);
}

#[test]
fn tasks_of_one_thread_run_in_order_and_one_at_a_time() {
    let (home, _clock) = home();
    let (log, inside) = (Log::new(), Arc::new(AtomicBool::new(false)));
    for number in 0..1000 {
        let (log, inside) = (log.clone(), Arc::clone(&inside));
        home.execute(move || {
            assert!(!inside.swap(true, Ordering::SeqCst));
            log.push(number);
            inside.store(false, Ordering::SeqCst);
        })
        .unwrap();
    }
    home.settle();
    assert!(log.take().into_iter().eq(0..1000));
}

#[test]
fn tasks_that_the_loop_gives_itself_run_in_order() {
    let (home, _clock) = home();
    let (log, handle) = (Log::new(), home.clone());
    let inner = log.clone();
    home.execute(move || {
        for number in 0..500 {
            handle.execute(inner.pushes(number)).unwrap();
        }
        inner.push(-1);
    })
    .unwrap();
    home.settle();
    assert!(log.take().into_iter().eq(-1..500));
}

#[test]
fn is_current_on_the_loop_only() {
    let (home, clock) = home();
    let other = crate::on(&clock, "other");
    assert!(!home.is_current() && EventLoop::current().is_none());
    let handle = home.clone();
    let seen = home.submit(move || (handle.is_current(), EventLoop::current() == Some(handle)));
    assert_eq!(seen.unwrap().wait().unwrap(), (true, true));
    let handle = home.clone();
    let seen = other.submit(move || handle.is_current());
    assert!(!seen.unwrap().wait().unwrap());
    assert_ne!(home, other);
    assert_eq!(home.executor().id(), home.id());
}

#[test]
fn a_submitted_task_completes_on_its_loop() {
    let (home, _clock) = home();
    let gate = hold(&home);
    let answer = home.submit(|| 20 + 22).unwrap();
    let (handle, log) = (home.clone(), Log::new());
    let seen = log.clone();
    answer.on_complete(move |outcome| seen.push((handle.is_current(), outcome.is_success())));
    assert!(answer.home().is_some_and(|at| at.id() == home.id()));
    gate.open();
    assert_eq!(answer.wait().unwrap(), 42);
    home.settle();
    assert_eq!(log.take(), [(true, true)]);
}

#[test]
fn a_task_cancelled_before_it_starts_never_runs() {
    let (home, _clock) = home();
    let (ran, gate) = (Counter::new(), hold(&home));
    let count = ran.clone();
    let answer = home.submit(move || count.hit()).unwrap();
    assert!(answer.cancel() && answer.is_cancelled());
    gate.open();
    home.settle();
    assert_eq!(ran.count(), 0);
    assert!(answer.wait().unwrap_err().is_cancelled());
}

#[test]
fn a_task_that_has_started_cannot_be_cancelled() {
    let (home, _clock) = home();
    let stop = Stop::new();
    let inside = stop.closure();
    let answer = home.submit(move || {
        inside();
        7
    });
    let answer = answer.unwrap();
    stop.reached();
    assert!(!answer.is_cancellable() && !answer.cancel());
    stop.go_on();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn a_panic_in_a_submitted_task_is_its_failure() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let answer = home.submit(|| -> u32 { panic!("on purpose") }).unwrap();
    let failure = answer.wait().unwrap_err().failure().unwrap();
    assert!(failure.is_panic() && failure.to_string().contains("on purpose"));
    assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
    assert!(received.is_empty(), "the submitter was notified");
}

#[test]
fn a_panicking_task_is_reported_and_never_kills_the_loop() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    home.submit(|| ()).unwrap().wait().unwrap();
    let thread = home.thread_info().unwrap().id();
    for _ in 0..3 {
        home.execute(|| panic!("out of ink")).unwrap();
    }
    assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
    for what in received.take() {
        let named = what.contains("a_panicking_task_is_reported");
        assert!(named && what.ends_with("panicked: out of ink"), "{what}");
    }
    assert_eq!(home.thread_info().unwrap().id(), thread);
    assert_eq!(home.metrics().panics, 3);
    assert_eq!(end(&home).handed_back.len(), 0);
}

#[test]
fn a_panicking_task_is_reported_by_the_name_it_was_given() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let compact = Task::named("compact", || panic!("out of ink"));
    home.execute_task(compact).unwrap();
    home.execute(|| panic!("out of paper")).unwrap();
    home.settle();
    let received = received.take();
    assert!(received[0].contains("compact") && received[0].ends_with("out of ink"));
    assert!(!received[1].contains("compact"), "{}", received[1]);
}

#[test]
fn a_hook_that_panics_over_a_panic_is_contained() {
    let clock = ManualClock::new();
    let hook = |_: &str, _: &tidegate_core::Unhandled<'_>| panic!("in the hook too");
    let home = builder(&clock, "home").on_unhandled(hook).build().unwrap();
    home.execute(|| panic!("on purpose")).unwrap();
    assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
}

/// A value whose drop uses the event loop and then panics.
struct Troublesome(EventLoop, Log<&'static str>);

impl Drop for Troublesome {
    fn drop(&mut self) {
        let log = self.1.clone();
        log.push("dropped");
        let _ = self.0.execute(move || log.push("ran"));
        let _ = EventLoop::current();
        panic!("on purpose, in a drop");
    }
}

#[test]
fn a_closure_whose_drop_uses_the_loop_and_panics_does_no_harm() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let log = Log::new();
    let trouble = Troublesome(home.clone(), log.clone());
    let gate = hold(&home);
    let answer = home.submit(move || drop(trouble)).unwrap();
    answer.cancel();
    gate.open();
    home.settle();
    assert_eq!(log.take(), ["dropped", "ran"]);
    assert_eq!(received.len(), 1);
    assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
}

#[test]
fn frees_the_closure_as_soon_as_it_ran() {
    let (home, _clock) = home();
    let drops = Counter::new();
    let captured = DropCount::new(&drops);
    let answer = home.submit(move || drop_nothing(&captured));
    let answer = answer.unwrap();
    home.settle();
    assert!(answer.is_done());
    assert_eq!(drops.count(), 1, "although the result is still there");
}

fn drop_nothing(_captured: &DropCount) {}

#[test]
fn a_busy_loop_is_not_woken() {
    let (home, _clock) = home();
    let gate = hold(&home);
    let before = home.metrics().wakeups;
    for _ in 0..100 {
        home.execute(|| ()).unwrap();
    }
    assert_eq!(home.metrics().wakeups, before);
    gate.open();
    home.settle();
    home.execute(|| ()).unwrap();
    assert_eq!(home.metrics().wakeups, before + 1);
    let handle = home.clone();
    let own = home.submit(move || handle.execute(|| ())).unwrap();
    own.wait().unwrap().unwrap();
    home.settle();
    assert!(home.metrics().wakeups <= before + 2, "none from itself");
}

#[test]
fn pending_tasks_are_those_that_have_not_started() {
    let (home, clock) = home();
    assert_eq!(home.pending_tasks(), 0);
    let gate = hold(&home);
    assert_eq!(home.pending_tasks(), 0, "the one that runs has started");
    for _ in 0..5 {
        home.execute(|| ()).unwrap();
    }
    let _later = home.schedule(SECOND, || ()).unwrap();
    assert_eq!(home.pending_tasks(), 5);
    gate.open();
    clock.settle();
    assert_eq!(home.pending_tasks(), 0);
}

#[test]
fn pending_tasks_count_what_the_loop_gave_itself() {
    let (home, clock) = home();
    let stop = Stop::new();
    let (inside, handle) = (stop.closure(), home.clone());
    home.execute(|| ()).unwrap();
    home.execute(move || {
        for _ in 0..3 {
            handle.execute(|| ()).unwrap();
        }
        inside();
    })
    .unwrap();
    stop.reached();
    home.execute(|| ()).unwrap();
    assert_eq!(home.pending_tasks(), 4);
    stop.go_on();
    clock.settle();
    assert_eq!(home.pending_tasks(), 0);
}

#[test]
fn a_task_that_resubmits_itself_does_not_keep_others_out() {
    fn again(home: EventLoop, stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::SeqCst) {
            let next = home.clone();
            home.execute(move || again(next, stop)).unwrap();
        }
    }
    let (home, _clock) = home();
    let stop = Arc::new(AtomicBool::new(false));
    let (handle, flag) = (home.clone(), Arc::clone(&stop));
    home.execute(move || again(handle, flag)).unwrap();
    for number in 0..100 {
        assert_eq!(home.submit(move || number).unwrap().wait().unwrap(), number);
    }
    stop.store(true, Ordering::SeqCst);
    home.settle();
}

#[test]
fn thread_info_starts_the_thread_and_shows_it() {
    let (home, _clock) = home();
    let info = home.thread_info().unwrap();
    assert!(info.name().starts_with("home-"), "{}", info.name());
    let (name, gate) = (info.name().to_owned(), hold(&home));
    let info = home.thread_info().unwrap();
    assert!(info.is_alive() && info.name() == name);
    assert_ne!(info.state(), ThreadState::Waiting);
    assert_eq!(info.priority(), ThreadBuilder::NORMAL_PRIORITY);
    gate.open();
    home.settle();
    assert_eq!(home.thread_info().unwrap().state(), ThreadState::Waiting);
    let seen = home.submit(|| thread::current().name().map(str::to_owned));
    assert_eq!(seen.unwrap().wait().unwrap().as_deref(), Some(&*name));
}

#[test]
fn thread_clean_up_is_done_before_termination_is_reported() {
    let (home, _clock) = home();
    let log = Log::new();
    let (clean, notified) = (log.clone(), log.clone());
    home.execute(move || at_thread_exit(move || clean.push("clean")))
        .unwrap();
    home.termination()
        .on_complete(move |_| notified.push("notified"));
    end(&home);
    log.wait_for(2);
    assert_eq!(log.take(), ["clean", "notified"]);
}

#[test]
fn the_loop_is_an_executor_that_does_not_keep_it_alive() {
    let (home, _clock) = home();
    let (executor, ended) = (home.executor(), home.termination());
    let (tx, rx) = mpsc::channel();
    executor
        .execute(Task::new(move || tx.send(1).unwrap()))
        .unwrap();
    assert_eq!(rx.recv(), Ok(1));
    drop(home);
    ended.wait().unwrap();
    let refused = executor.execute(Task::new(|| ())).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
}

#[test]
fn a_task_after_shutdown_is_handed_back_inside_and_outside() {
    let (home, _clock) = home();
    let (handle, log) = (home.clone(), Log::new());
    let seen = log.clone();
    // A future that is dropped by the shutdown runs its drop on the event loop, after it has
    // closed.
    struct Late(EventLoop, Log<(bool, Option<RejectReason>)>);
    impl Drop for Late {
        fn drop(&mut self) {
            let refused = self.0.execute(|| ()).err().map(|refused| refused.why());
            self.1.push((self.0.is_shutdown(), refused));
        }
    }
    let late = Late(handle, seen);
    let forever = home.spawn(async move {
        let _late = late;
        std::future::pending::<()>().await;
    });
    home.settle();
    let report = home.shutdown(Quiet::none(SECOND));
    assert_eq!(report.wait().unwrap().dropped, 1);
    assert!(forever.unwrap().is_cancelled());
    assert_eq!(log.take(), [(true, Some(RejectReason::Closed))]);
    let drops = Counter::new();
    let captured = DropCount::new(&drops);
    let refused = home.execute(move || drop(captured)).unwrap_err();
    assert_eq!((refused.why(), drops.count()), (RejectReason::Closed, 0));
    refused.into_inner().run();
    assert_eq!(drops.count(), 1);
}
