//! Waiting for the end of a thread: a blocking join is checked, a future always works.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use tidegate_testkit::{Bomb, block_on, explode};

use super::*;
use crate::ThreadBuilder;
use crate::executor::enter;
use crate::testing::StubExecutor;
use crate::thread::start::at_thread_exit;
use crate::thread::{ThreadJob, ThreadState};
use crate::wait::check_wait;

/// Starts a thread that runs until the sender is dropped.
fn held() -> (ThreadHandle, Sender<()>) {
    let (tx, rx) = mpsc::channel();
    let run = move || assert!(rx.recv().is_err(), "it is only dropped");
    let thread = ThreadBuilder::new("held").spawn(run);
    (thread.expect("a thread can be had"), tx)
}

/// Returns a count, and a job that adds one to it.
fn counter() -> (Arc<AtomicUsize>, impl FnOnce() + Send + 'static) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    (ran, move || {
        count.fetch_add(1, Ordering::Relaxed);
    })
}

fn poll(end: &mut ThreadEnd, parker: &Parker) -> bool {
    let waker = Waker::from(parker);
    let poll = Pin::new(end).poll(&mut Context::from_waker(&waker));
    poll.is_ready()
}

/// Returns the text of an error and of its cause.
fn with_source(error: &JoinError) -> String {
    let source = error.source().expect("it has a cause");
    assert!(source.source().is_none());
    format!("{error}: {source}")
}

/// Waits for the end of a thread that is about to end.
fn await_end(thread: &ThreadHandle) {
    block_on("the thread has ended", thread.ended());
}

#[test]
fn a_loop_must_not_join_and_gets_its_handle_back() {
    let (thread, go_on) = held();
    let home = StubExecutor::new("io", 1);
    let mark = enter(home, WaitPolicy::Loop);
    let error = thread.join().unwrap_err();
    let message = with_source(&error);
    for word in [
        "held-",
        "io, an event loop, must not block",
        "await its end",
    ] {
        assert!(message.contains(word), "{message}");
    }
    let error = error.into_handle().join();
    let error = error.unwrap_err();
    assert!(!error.why().is_deadlock());
    drop(mark);
    drop(go_on);
    assert!(error.into_handle().join().unwrap());
}

#[test]
fn a_thread_that_has_ended_is_never_refused() {
    let (thread, go_on) = held();
    drop(go_on);
    await_end(&thread);
    let _mark = enter(StubExecutor::new("io", 1), WaitPolicy::Loop);
    assert!(thread.join().unwrap());
}

#[test]
fn a_thread_cannot_join_itself() {
    let (tx, rx) = mpsc::channel::<ThreadHandle>();
    let (sender, receiver) = mpsc::channel();
    let join = move || {
        let thread = rx.recv().unwrap();
        let error = thread.join().unwrap_err();
        sender.send(error.why().is_deadlock()).unwrap();
    };
    let thread = ThreadBuilder::new("itself").spawn(join).unwrap();
    tx.send(thread).unwrap();
    assert!(receiver.recv().unwrap());
}

#[test]
fn of_two_threads_that_join_each_other_one_is_refused() {
    let join = |rx: Receiver<ThreadHandle>, sender: Sender<bool>| {
        move || {
            let other = rx.recv().unwrap();
            sender.send(other.join().is_ok()).unwrap();
        }
    };
    for _ in 0..20 {
        let (sender, receiver) = mpsc::channel();
        let (to_one, one) = mpsc::channel();
        let (to_two, two) = mpsc::channel();
        let threads = ThreadBuilder::new("each-other");
        let one = threads.spawn(join(one, sender.clone())).unwrap();
        let two = threads.spawn(join(two, sender)).unwrap();
        to_one.send(two).unwrap();
        to_two.send(one).unwrap();
        let mut joined: Vec<_> = receiver.iter().collect();
        joined.sort_unstable();
        assert_eq!(joined, [false, true]);
    }
}

#[test]
fn a_pool_must_not_join_a_thread_that_waits_for_it() {
    let pool = StubExecutor::new("pool", 1);
    let home = Arc::clone(&pool);
    let (waits, is_waiting) = mpsc::channel();
    let (tx, rx) = mpsc::channel::<()>();
    let wait = move || {
        let _waiting = check_wait(Some(&*home)).unwrap();
        waits.send(()).unwrap();
        assert!(rx.recv().is_err(), "it is only dropped");
    };
    let thread = ThreadBuilder::new("waits").spawn(wait).unwrap();
    is_waiting.recv().unwrap();
    let mark = enter(pool, WaitPolicy::Free);
    let error = thread.join().unwrap_err();
    let message = with_source(&error);
    assert!(message.contains("pool waits for waits-"), "{message}");
    drop(mark);
    drop(tx);
    assert!(error.into_handle().join().unwrap());
}

#[test]
fn the_end_is_a_future() {
    let (thread, go_on) = held();
    let (mut end, mut given_up) = (thread.ended(), thread.watch().ended());
    let [old, new, other] = [(); 3].map(|()| Parker::new());
    assert!(!poll(&mut end, &old) && !poll(&mut end, &new));
    assert!(!poll(&mut given_up, &other));
    drop(given_up);
    assert_eq!(thread.record.watching(), 1, "one waker for each future");
    drop(go_on);
    new.park(None);
    assert!(poll(&mut end, &old));
    assert_eq!(thread.info().state(), ThreadState::Ended);
    assert!(thread.join().unwrap());
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    struct Explodes;
    impl std::task::Wake for Explodes {
        fn wake(self: Arc<Self>) {
            explode();
        }
    }
    let (thread, go_on) = held();
    let (mut bad, mut good) = (thread.ended(), thread.ended());
    let waker = Waker::from(Arc::new(Explodes));
    assert!(!bad.is_ready(&waker));
    let parker = Parker::new();
    assert!(!poll(&mut good, &parker));
    drop(go_on);
    parker.park(None);
    assert!(poll(&mut good, &parker));
    assert!(thread.join().unwrap());
}

#[test]
fn a_job_that_its_spawner_drops_has_ended() {
    let threads = ThreadBuilder::new("x").spawner(|job| {
        drop(job);
        Ok(())
    });
    let thread = threads.spawn(|| ()).unwrap();
    assert!(poll(&mut thread.ended(), &Parker::new()));
    assert!(!thread.join().unwrap(), "the spawner had it");
}

#[test]
fn a_spawner_that_panics_has_started_nothing() {
    let threads = ThreadBuilder::new("x").spawner(|_job| explode());
    let (ran, count) = counter();
    let error = threads.spawn(count);
    let message = error.unwrap_err().to_string();
    assert!(message.contains("the spawner panicked"), "{message}");
    assert_eq!(
        (Arc::strong_count(&ran), ran.load(Ordering::Relaxed)),
        (1, 0)
    );
}

#[test]
fn a_job_whose_spawner_failed_does_not_run_later() {
    let kept: Arc<Mutex<Option<ThreadJob>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let threads = ThreadBuilder::new("x").spawner(move |job| {
        *keep.lock().unwrap() = Some(job);
        Err(io::Error::other("no thread for you"))
    });
    let (ran, count) = counter();
    threads.spawn(count).unwrap_err();
    let job = kept.lock().unwrap().take().unwrap();
    job.run();
    assert_eq!(
        (Arc::strong_count(&ran), ran.load(Ordering::Relaxed)),
        (1, 0)
    );
}

#[test]
fn a_spawner_that_panics_after_it_has_started_the_thread_is_overruled() {
    let (began, has_begun) = mpsc::channel();
    let has_begun = Mutex::new(has_begun);
    let threads = ThreadBuilder::new("x").spawner(move |job| {
        std::thread::Builder::new().spawn(|| job.run())?;
        has_begun.lock().unwrap().recv().unwrap();
        explode();
    });
    let thread = threads.spawn(move || began.send(()).unwrap()).unwrap();
    await_end(&thread);
}

#[test]
fn what_hooks_panic_with_and_have_captured_does_no_harm() {
    let (sender, receiver) = mpsc::channel();
    let [start, stop] = [Bomb::new(), Bomb::new()];
    let thread = ThreadBuilder::new("bombs")
        .on_start(|| explode())
        .on_start(move || drop_nothing(&start))
        .on_stop(|| explode())
        .on_stop(move || drop_nothing(&stop))
        .spawn(move || {
            at_thread_exit(move || sender.send("clean").unwrap());
            at_thread_exit(|| explode());
            explode();
        })
        .unwrap();
    assert_eq!(receiver.recv(), Ok("clean"));
    assert!(thread.join().unwrap(), "nothing unwound its thread");
}

fn drop_nothing(_bomb: &Bomb) {}
