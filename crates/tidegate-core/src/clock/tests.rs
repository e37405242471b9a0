//! Time moves only when the test advances it, and each sleeper is woken at exactly its deadline.

use std::sync::mpsc;
use std::thread;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::Parker;

const SECOND: Duration = Duration::from_secs(1);

/// Starts a thread on `clock` that sleeps until each of `deadlines` in turn and sends the time at
/// which it woke.
fn sleeper(clock: &ManualClock, deadlines: Vec<u64>, tell: mpsc::Sender<u64>) -> Member {
    let clock = Clock::from(clock);
    let mut member = clock.join();
    let thread = thread::Builder::new().spawn(move || {
        member.enter();
        let parker = Parker::new();
        for deadline in deadlines {
            while clock.nanos() < deadline {
                clock.park_until(&parker, Some(deadline));
            }
            tell.send(clock.nanos()).expect("the test listens");
        }
    });
    thread.expect("a thread can be had")
}

type Member = thread::JoinHandle<()>;

/// A member that runs one job at a time and sleeps in between, like a loop.
struct Worker {
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    parker: Parker,
    thread: Member,
}

impl Worker {
    fn start(clock: &ManualClock) -> Self {
        let clock = Clock::from(clock);
        let (jobs, todo) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let parker = Parker::new();
        let sleep_in = parker.clone();
        let mut member = clock.join();
        let thread = thread::Builder::new().spawn(move || {
            member.enter();
            loop {
                match todo.try_recv() {
                    Ok(job) => job(),
                    Err(mpsc::TryRecvError::Empty) => {
                        clock.park_until(&sleep_in, None);
                    }
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
        });
        Self {
            jobs,
            parker,
            thread: thread.expect("a thread can be had"),
        }
    }

    fn give(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.send(Box::new(job)).expect("it runs");
        self.parker.unpark();
    }

    fn stop(self) {
        drop(self.jobs);
        self.parker.unpark();
        self.thread.join().expect("it does not panic");
    }
}

#[test]
fn advance_steps_from_deadline_to_deadline_in_order() {
    let clock = ManualClock::new();
    let (tx, rx) = mpsc::channel();
    let threads = [
        sleeper(&clock, vec![10, 30, 31, 1_000], tx.clone()),
        sleeper(&clock, vec![20, 30, 500], tx.clone()),
        sleeper(&clock, vec![25], tx),
    ];
    clock.advance(Duration::from_nanos(100));
    let seen: Vec<u64> = rx.try_iter().collect();
    assert_eq!(seen, [10, 20, 25, 30, 30, 31]);
    assert_eq!(clock.nanos(), 100);
    let next = clock.next_deadline().expect("two still sleep");
    assert_eq!(Clock::from(&clock).instant_at(500), Some(next));
    clock.advance(SECOND);
    assert_eq!(rx.iter().collect::<Vec<_>>(), [500, 1_000]);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    assert_eq!((clock.sleepers(), clock.next_deadline()), (0, None));
}

#[test]
fn a_sleeper_whose_deadline_was_not_reached_goes_on_sleeping() {
    let clock = ManualClock::new();
    let (tx, rx) = mpsc::channel();
    let thread = sleeper(&clock, vec![100], tx);
    clock.advance(Duration::from_nanos(99));
    assert!(rx.try_recv().is_err());
    assert_eq!(clock.sleepers(), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(rx.recv(), Ok(100));
    thread.join().expect("it does not panic");
}

#[test]
fn a_passed_deadline_returns_at_once() {
    let manual = ManualClock::new();
    manual.advance(SECOND);
    for clock in [Clock::from(&manual), Clock::system()] {
        let (parker, now) = (Parker::new(), clock.nanos());
        for passed in [0, now] {
            assert!(!clock.park_until(&parker, Some(passed)));
        }
    }
    let mut slept = false;
    let sleeper: Arc<dyn Sleeper> = Arc::new(Parker::new());
    Clock::from(&manual).sleep_until(&sleeper, Some(0), |_| slept = true);
    assert!(!slept);
}

#[test]
fn a_pending_wakeup_ends_the_sleep_before_its_deadline() {
    for clock in [Clock::from(ManualClock::new()), Clock::system()] {
        let parker = Parker::new();
        parker.unpark();
        assert!(clock.park_until(&parker, Some(u64::MAX)));
        parker.unpark();
        assert!(clock.park_until(&parker, None));
    }
}

#[test]
fn a_jump_does_not_wait_for_sleepers() {
    let clock = ManualClock::new();
    let _busy = Clock::from(&clock).join();
    clock.jump(SECOND);
    assert_eq!(clock.nanos(), as_nanos(SECOND));
}

#[test]
fn a_jump_wakes_every_sleeper_that_is_due() {
    let clock = ManualClock::new();
    let (tx, rx) = mpsc::channel();
    let thread = sleeper(&clock, vec![10], tx);
    clock.await_sleepers(1);
    clock.jump(Duration::from_nanos(50));
    assert_eq!(
        rx.recv(),
        Ok(50),
        "one step, so it sees where the clock went"
    );
    thread.join().expect("it does not panic");
}

#[test]
fn time_does_not_go_back_if_it_is_moved_while_an_advance_waits() {
    let (clock, stop) = (ManualClock::new(), tidegate_testkit::Stop::new());
    let (on, inside) = (Clock::from(&clock), stop.closure());
    let mut member = on.join();
    thread::scope(|scope| {
        scope.spawn(move || {
            member.enter();
            on.park_until(&Parker::new(), Some(5));
            inside();
        });
        let advances = scope.spawn(|| clock.advance(Duration::from_nanos(10)));
        stop.reached();
        clock.jump(Duration::from_nanos(100));
        stop.go_on();
        advances.join().expect("it does not panic");
    });
    assert_eq!(clock.nanos(), 105);
}

#[test]
fn time_at_its_end_stays_there() {
    let clock = ManualClock::new();
    let sleeper: Arc<dyn Sleeper> = Arc::new(Parker::new());
    Clock::from(&clock).sleep_until(&sleeper, Some(10), |_| {
        for _ in 0..3 {
            clock.advance(Duration::MAX);
            assert!(clock.nanos() > u64::MAX - 8 && clock.nanos() < u64::MAX);
        }
    });
    let end = clock.nanos();
    clock.jump(SECOND);
    assert_eq!(clock.nanos(), end);
    assert_eq!(Clock::from(&clock).deadline(SECOND), u64::MAX);
}

#[test]
fn settle_waits_for_what_one_member_gives_another() {
    let clock = ManualClock::new();
    let (first, second) = (Worker::start(&clock), Worker::start(&clock));
    for _ in 0..tidegate_testkit::rounds(300) {
        let (tx, rx) = mpsc::channel();
        let (jobs, parker) = (second.jobs.clone(), second.parker.clone());
        first.give(move || {
            let job = move || tx.send(()).expect("the test listens");
            jobs.send(Box::new(job)).expect("it runs");
            parker.unpark();
        });
        clock.settle();
        assert_eq!(rx.try_recv(), Ok(()), "settled before the work was done");
    }
    first.stop();
    second.stop();
}

#[test]
fn a_wakeup_counts_as_work_before_its_thread_runs() {
    let clock = ManualClock::new();
    let (parker, wait) = (Parker::new(), Parker::new());
    let mut member = Clock::from(&clock).join();
    member.enter();
    let sleeper: Arc<dyn Sleeper> = Arc::new(parker.clone());
    // This thread plays a sleeping member; checks replace the real waiting.
    Clock::from(&clock).sleep_until(&sleeper, None, |_| {
        assert!(clock.is_quiet());
        parker.unpark();
        assert!(!clock.is_quiet(), "woken, though it has not run yet");
    });
    assert!(!clock.is_quiet(), "awake");
    // The wakeup above was not consumed: a sleeper with a pending wakeup is not quiet either.
    Clock::from(&clock).sleep_until(&sleeper, None, |_| assert!(!clock.is_quiet()));
    let due: Arc<dyn Sleeper> = Arc::new(wait);
    Clock::from(&clock).sleep_until(&due, Some(5), |_| {
        assert!(clock.is_quiet());
        clock.jump(Duration::from_nanos(5));
        assert!(!clock.is_quiet(), "due");
    });
    drop(member);
    clock.settle();
}

#[test]
fn a_member_asleep_in_a_wait_inside_its_work_is_quiet() {
    let clock = ManualClock::new();
    let worker = Worker::start(&clock);
    let (tx, rx) = mpsc::channel();
    let inner = Clock::from(&clock);
    worker.give(move || {
        let parker = Parker::new();
        while inner.nanos() < 50 {
            inner.park_until(&parker, Some(50));
        }
        tx.send(inner.nanos()).expect("the test listens");
    });
    clock.settle();
    assert!(rx.try_recv().is_err());
    assert_eq!(clock.sleepers(), 1);
    clock.advance(Duration::from_nanos(200));
    assert_eq!(rx.try_recv(), Ok(50));
    worker.stop();
}

#[test]
fn a_nested_sleep_gives_the_outer_one_back() {
    let clock = ManualClock::new();
    let mut member = Clock::from(&clock).join();
    member.enter();
    let (outer, inner) = (Parker::new(), Parker::new());
    let on = Clock::from(&clock);
    let outer: Arc<dyn Sleeper> = Arc::new(outer);
    let inner: Arc<dyn Sleeper> = Arc::new(inner);
    on.sleep_until(&outer, None, |_| {
        on.sleep_until(&inner, None, |_| assert!(clock.is_quiet()));
        assert!(clock.is_quiet(), "the outer sleep goes on");
    });
    assert!(!clock.is_quiet());
}

#[test]
fn a_member_of_one_clock_is_a_stranger_to_another() {
    let (mine, other) = (ManualClock::new(), ManualClock::new());
    let mut here = Clock::from(&mine).join();
    // A busy member of the other clock, created at the same time as this thread's membership.
    let busy = Clock::from(&other).join();
    here.enter();
    let sleeper: Arc<dyn Sleeper> = Arc::new(Parker::new());
    Clock::from(&other).sleep_until(&sleeper, None, |_| {
        assert!(!other.is_quiet(), "its own member is still busy");
        assert!(!mine.is_quiet(), "asleep elsewhere is not asleep here");
    });
    drop(busy);
    assert!(other.is_quiet());
}

#[test]
fn a_member_that_has_not_started_is_busy_until_it_ends() {
    let clock = ManualClock::new();
    assert!(clock.is_quiet());
    let member = Clock::from(&clock).join();
    assert!(!clock.is_quiet());
    drop(member);
    assert!(clock.is_quiet());
    clock.settle();
    Clock::system().settle();
    drop(Clock::system().join());
}

#[test]
fn the_system_clock_never_goes_back() {
    let clock = Clock::system();
    let mut last = (clock.now(), clock.nanos());
    for _ in 0..1_000 {
        let next = (clock.now(), clock.nanos());
        assert!(next.0 >= last.0 && next.1 >= last.1);
        last = next;
    }
    assert!(!clock.is_manual() && Clock::from(ManualClock::new()).is_manual());
}

#[test]
fn deadlines_saturate() {
    for clock in [Clock::system(), Clock::from(ManualClock::new())] {
        assert_eq!(clock.deadline(Duration::MAX), u64::MAX);
        assert!(clock.deadline(SECOND) >= as_nanos(SECOND));
    }
    assert_eq!(as_nanos(Duration::MAX), u64::MAX);
    assert_eq!(as_nanos(Duration::from_micros(3)), 3_000);
}

#[test]
fn a_manual_ticker_returns_when_the_watcher_has_looked() {
    let (mut ticker, steps) = Ticker::manual();
    let (tx, rx) = mpsc::channel();
    let watcher = thread::Builder::new().spawn(move || {
        while let Some(passed) = ticker.wait() {
            tx.send(passed).expect("the test listens");
        }
    });
    for seconds in 1..50 {
        let step = Duration::from_secs(seconds);
        steps.tick(step);
        assert_eq!(
            rx.try_recv(),
            Ok(step),
            "the look is over when tick returns"
        );
    }
    drop(steps);
    watcher
        .expect("a thread can be had")
        .join()
        .expect("it does not panic");
}

#[test]
fn a_tick_without_a_waiter_returns() {
    let (ticker, steps) = Ticker::manual();
    ticker.stop_handle().stop();
    drop(ticker);
    steps.tick(SECOND);
}

#[test]
fn a_manual_ticker_is_stopped_by_its_handle() {
    let (mut ticker, steps) = Ticker::manual();
    let stop = ticker.stop_handle();
    let waiter = thread::Builder::new().spawn(move || {
        let first = ticker.wait();
        (first, ticker.wait())
    });
    steps.tick(SECOND);
    stop.stop();
    let waited = waiter.expect("a thread can be had").join();
    assert_eq!(waited.expect("it does not panic"), (Some(SECOND), None));
    steps.tick(SECOND);
}

#[test]
fn a_ticker_with_another_hand_goes_on() {
    let (mut ticker, steps) = Ticker::manual();
    let other = steps.clone();
    drop(steps);
    let waiter = thread::Builder::new().spawn(move || (ticker.wait(), ticker.wait()));
    other.tick(SECOND);
    drop(other);
    let waited = waiter.expect("a thread can be had").join();
    assert_eq!(waited.expect("it does not panic"), (Some(SECOND), None));
}

#[test]
fn a_sleep_whose_time_is_over_consumes_the_pending_wakeup() {
    for clock in [Clock::system(), Clock::from(ManualClock::new())] {
        let parker = Parker::new();
        parker.unpark();
        assert!(clock.park_until(&parker, Some(0)));
        assert!(!parker.is_notified());
        assert!(!clock.park_until(&parker, Some(0)));
    }
}

#[test]
fn a_real_ticker_ticks_and_stops() {
    let mut ticker = Ticker::every(Duration::ZERO);
    assert!(ticker.wait().is_some());
    let stop = ticker.stop_handle();
    let mut never = Ticker::every(Duration::MAX);
    let stop_never = never.stop_handle();
    let waiter = thread::Builder::new().spawn(move || never.wait());
    stop_never.stop();
    let waited = waiter.expect("a thread can be had").join();
    assert_eq!(waited.expect("it does not panic"), None);
    stop.stop();
    assert_eq!(ticker.wait(), None);
}
