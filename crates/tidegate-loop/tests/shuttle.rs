//! Whole event loops under controlled schedules (`cargo xtask shuttle`): shutdown against
//! submissions, suspension, scaling.
//!
//! Shuttle runs the threads of a program one at a time. At each operation on a lock, an atomic or a
//! parker it chooses which thread continues: at random, or with a few changes of priority (PCT). It
//! does not model weak memory; loom does. It finds a lost wake-up as a deadlock, and a lost or
//! repeated task as a wrong count. Each schedule has a seed and is printed if it fails;
//! `shuttle::replay` runs it again.
//!
//! Time is that of a manual clock, so that event loops neither spin nor wait for anything but each
//! other.
//!
//! # Mutations that these tests catch
//!
//! Each of these changes, made by hand, fails the named test (and mostly others) within the seeds
//! of CI:
//!
//! * `a_loop_that_gives_its_thread_back_misses_no_task`: an event loop sleeps without checking its
//!   lanes again; no producer rings the doorbell; a leaving event loop does not arm its doorbell; a
//!   leaving event loop does not check its lanes; `wake` starts no thread.
//! * `a_shutdown_whose_time_is_over_hands_everything_back`: the shutdown without a thread drops the
//!   tasks that are left; it is decided without the lock; the lane is not closed at the end; tasks
//!   that the event loop submitted to itself are dropped.
//! * `a_patient_shutdown_against_submissions_loses_nothing`: the shutdown without a thread closes
//!   the lane after it has released the lock.
//! * `the_last_handle_against_its_own_tasks_ends_the_loop`: dropping the last handle does not
//!   request a shutdown.
//! * `a_group_that_scales_runs_every_task`: a group that was scaled down to zero has no next
//!   event loop.
//!
//! Not caught, because they are harmless: an event loop that sleeps without reading its state
//! again, since every thread that changes the state also wakes it; a new thread that does not wait
//! for its starter, since it takes the same lock a moment later.
#![cfg(tidegate_shuttle)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use tidegate_core::{ManualClock, Ticker};
use tidegate_loop::{EventLoop, EventLoopGroup, Lifecycle, Quiet, Scaling, ShutdownReport};

const SECOND: Duration = Duration::from_secs(1);
/// Changes of priority in a PCT schedule.
const CHANGES: usize = 3;

/// Returns the number of seeds, and the number of schedules of each kind per seed.
fn size() -> (u64, usize) {
    match std::env::var("TIDEGATE_LONG") {
        Ok(long) if long == "1" => (64, 2_000),
        _ => (8, 400),
    }
}

/// Runs `life` under the schedules of every seed.
fn explore(life: fn()) {
    let (seeds, schedules) = size();
    for seed in 0..seeds {
        let mut config = Config::new();
        config.stack_size = 512 * 1024;
        let random = RandomScheduler::new_from_seed(seed, schedules);
        Runner::new(random, config.clone()).run(life);
        let pct = PctScheduler::new_from_seed(seed, CHANGES, schedules);
        Runner::new(pct, config).run(life);
    }
}

/// How many tasks were accepted, and how many ran.
#[derive(Clone, Default)]
struct Tally {
    accepted: Arc<AtomicUsize>,
    ran: Arc<AtomicUsize>,
}

impl Tally {
    fn task(&self) -> impl FnOnce() + Send + 'static {
        let ran = Arc::clone(&self.ran);
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note(&self, accepted: bool) {
        self.accepted
            .fetch_add(usize::from(accepted), Ordering::Relaxed);
    }

    /// Runs the handed-back tasks, then asserts that as many tasks ran as were accepted.
    fn check(&self, report: &ShutdownReport) {
        for task in report.handed_back.take() {
            task.run();
        }
        let ran = self.ran.load(Ordering::Relaxed);
        assert_eq!(ran, self.accepted.load(Ordering::Relaxed));
    }
}

fn home() -> (EventLoop, ManualClock) {
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).bound(16).build();
    (home.expect("a plain loop can be built"), clock)
}

/// Submits tasks with each method of an event loop.
fn submit_all(home: &EventLoop, tally: &Tally) {
    tally.note(home.execute(tally.task()).is_ok());
    tally.note(home.submit(tally.task()).is_ok());
    let (inner, nested) = (home.clone(), tally.clone());
    let outer = home.execute(move || nested.note(inner.execute(nested.task()).is_ok()));
    drop(outer);
}

fn shut_down_against_submissions(timeout: Duration) {
    let (home, _clock) = home();
    let tally = Tally::default();
    let submitters: Vec<_> = (0..2)
        .map(|_| {
            let (home, tally) = (home.clone(), tally.clone());
            thread::spawn(move || submit_all(&home, &tally))
        })
        .collect();
    let ended = home.shutdown(Quiet::none(timeout));
    for submitter in submitters {
        submitter.join().expect("it does not panic");
    }
    let report = ended.wait().expect("no task is stuck");
    assert_eq!(home.lifecycle(), Lifecycle::Terminated);
    assert!(home.execute(|| ()).is_err());
    // The clock stands still: any timeout above zero is long enough.
    assert!(timeout.is_zero() || report.handed_back.is_empty());
    tally.check(&report);
}

#[test]
fn a_patient_shutdown_against_submissions_loses_nothing() {
    explore(|| shut_down_against_submissions(SECOND));
}

#[test]
fn a_shutdown_whose_time_is_over_hands_everything_back() {
    explore(|| shut_down_against_submissions(Duration::ZERO));
}

#[test]
fn a_stricter_shutdown_ends_one_that_waits_for_quiet() {
    explore(|| {
        let (home, _clock) = home();
        let tally = Tally::default();
        let patient = {
            let (home, tally) = (home.clone(), tally.clone());
            thread::spawn(move || {
                submit_all(&home, &tally);
                home.shutdown(Quiet {
                    period: SECOND,
                    timeout: SECOND * 2,
                });
                submit_all(&home, &tally);
            })
        };
        let report = home.shutdown(Quiet::none(SECOND)).wait();
        patient.join().expect("it does not panic");
        tally.check(&report.expect("no task is stuck"));
    });
}

#[test]
fn the_last_handle_against_its_own_tasks_ends_the_loop() {
    explore(|| {
        let (home, _clock) = home();
        let (tally, ended) = (Tally::default(), home.termination());
        let other = {
            let (home, tally) = (home.clone(), tally.clone());
            thread::spawn(move || submit_all(&home, &tally))
        };
        submit_all(&home, &tally);
        drop(home);
        other.join().expect("it does not panic");
        tally.check(&ended.wait().expect("no task is stuck"));
    });
}

#[test]
fn a_loop_that_gives_its_thread_back_misses_no_task() {
    explore(|| {
        let (home, _clock) = home();
        let submitters: Vec<_> = (0..2)
            .map(|_| {
                let home = home.clone();
                thread::spawn(move || {
                    for number in 0..2 {
                        home.try_suspend();
                        let answer = home.submit(move || number).expect("there is room");
                        assert_eq!(answer.wait().ok(), Some(number));
                    }
                })
            })
            .collect();
        for submitter in submitters {
            submitter.join().expect("it does not panic");
        }
        let report = home.shutdown(Quiet::none(SECOND)).wait();
        assert!(report.expect("no task is stuck").handed_back.is_empty());
    });
}

#[test]
fn a_shutdown_against_suspension_ends_the_loop_and_loses_nothing() {
    explore(|| {
        let (home, _clock) = home();
        let tally = Tally::default();
        let submitter = {
            let (home, tally) = (home.clone(), tally.clone());
            thread::spawn(move || {
                tally.note(home.execute(tally.task()).is_ok());
                home.try_suspend();
                tally.note(home.execute(tally.task()).is_ok());
            })
        };
        home.try_suspend();
        let report = home.shutdown(Quiet::none(SECOND)).wait();
        submitter.join().expect("it does not panic");
        tally.check(&report.expect("no task is stuck"));
    });
}

#[test]
fn a_timer_keeps_its_time_though_the_loop_is_suspending() {
    explore(|| {
        let (home, clock) = home();
        let asking = {
            let home = home.clone();
            thread::spawn(move || home.try_suspend())
        };
        let due = home.schedule(SECOND, || 7).expect("the loop is open");
        clock.advance(SECOND);
        assert_eq!(due.wait().ok(), Some(7));
        asking.join().expect("it does not panic");
        drop(home);
    });
}

#[test]
fn a_group_that_scales_runs_every_task() {
    explore(|| {
        let (clock, (ticker, steps)) = (ManualClock::new(), Ticker::manual());
        let scaling = Scaling::between(0, 2).consecutive_windows(0).ticker(ticker);
        let group = EventLoopGroup::builder("io").loops(2).clock(&clock);
        let group = group.scaling(scaling).build().expect("two loops");
        let windows = thread::spawn(move || {
            for _ in 0..3 {
                steps.tick(SECOND);
            }
        });
        let submitter = {
            let group = group.clone();
            thread::spawn(move || {
                for number in 0..3 {
                    let answer = group.submit(move || number).expect("there is room");
                    assert_eq!(answer.wait().ok(), Some(number));
                }
            })
        };
        let answer = group.submit(|| 7).expect("there is room");
        assert_eq!(answer.wait().ok(), Some(7));
        submitter.join().expect("it does not panic");
        let report = group.shutdown(Quiet::none(SECOND)).wait();
        assert!(report.expect("no task is stuck").handed_back.is_empty());
        windows.join().expect("it does not panic");
    });
}
