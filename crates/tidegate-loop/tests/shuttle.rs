//! Whole loops under chosen schedules (`cargo xtask shuttle`): shutdown against submissions,
//! suspension, scaling.
//!
//! Shuttle runs the threads of a program one at a time and chooses at each step of a lock, an
//! atomic word or a parker who goes on: at random, or with a few changes of priority (PCT). It
//! knows no weak memory, which is loom's part; it finds a lost wakeup as a deadlock, and what a
//! schedule does to a task as a wrong count. A schedule is known by its seed and printed when it
//! fails; `shuttle::replay` takes it.
//!
//! Time is a manual clock's, so that loops neither spin nor wait for anything but each other.
//!
//! # They bite
//!
//! Each of these changes, made by hand, fails the test named after it (and mostly others) within
//! the seeds of CI:
//!
//! | changed | fails |
//! |---|---|
//! | a loop sleeps without looking at its lanes again; nobody rings the doorbell | `a_loop_that_gives_its_thread_back_misses_no_task` |
//! | a leaving loop does not arm its bell; does not look at its lanes; `wake` asks for no thread | `a_loop_that_gives_its_thread_back_misses_no_task` |
//! | the end without a thread drops what is left; is decided without the lock | `a_shutdown_whose_time_is_over_hands_everything_back` |
//! | the end without a thread closes the lane after it gave the lock up | `a_patient_shutdown_against_submissions_loses_nothing` |
//! | the lane is not closed at the end; what the loop gave itself is dropped | `a_shutdown_whose_time_is_over_hands_everything_back` |
//! | the last handle does not ask for the end | `the_last_handle_against_its_own_tasks_ends_the_loop` |
//! | a group that was scaled to nothing has no next loop | `a_group_that_scales_answers_everything` |
//!
//! Not caught, and right so: a loop that sleeps without looking at its state again, since whoever
//! changes the state wakes it in any case; a new thread that does not wait for whoever starts it,
//! since it takes the same lock a moment later.
#![cfg(tidegate_shuttle)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use tidegate_core::{ManualClock, Ticker};
use tidegate_loop::{EventLoop, EventLoopGroup, Lifecycle, Quiet, Scaling, ShutdownReport};

const SECOND: Duration = Duration::from_secs(1);
/// Changes of priority in a schedule of the second kind.
const CHANGES: usize = 3;

/// Seeds, and schedules of each kind for each.
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

    /// Runs what was handed back; then every accepted task has run, and once.
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

/// Submits in each way that a loop has.
fn submit_all(home: &EventLoop, tally: &Tally) {
    tally.note(home.execute(tally.task()).is_ok());
    tally.note(home.execute_lazy(tally.task()).is_ok());
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
    let ended = home.shutdown_gracefully(Quiet::none(timeout));
    for submitter in submitters {
        submitter.join().expect("it does not panic");
    }
    let report = ended.wait().expect("no task is stuck");
    assert_eq!(home.lifecycle(), Lifecycle::Terminated);
    assert!(home.execute(|| ()).is_err());
    // The clock stands still: where there is any time, there is enough.
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
                home.shutdown_gracefully(Quiet {
                    period: SECOND,
                    timeout: SECOND * 2,
                });
                submit_all(&home, &tally);
            })
        };
        let report = home.shutdown_gracefully(Quiet::none(SECOND)).wait();
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
        let report = home.shutdown_gracefully(Quiet::none(SECOND)).wait();
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
        let report = home.shutdown_gracefully(Quiet::none(SECOND)).wait();
        submitter.join().expect("it does not panic");
        tally.check(&report.expect("no task is stuck"));
    });
}

#[test]
fn a_timer_keeps_its_time_though_the_loop_is_asked_to_leave() {
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
fn a_group_that_scales_answers_everything() {
    explore(|| {
        let (clock, (ticker, steps)) = (ManualClock::new(), Ticker::manual());
        let scaling = Scaling::between(0, 2).patience(0).ticker(ticker);
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
        let report = group.shutdown_gracefully(Quiet::none(SECOND)).wait();
        assert!(report.expect("no task is stuck").handed_back.is_empty());
        windows.join().expect("it does not panic");
    });
}
