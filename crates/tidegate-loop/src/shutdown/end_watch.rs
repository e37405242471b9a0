//! The thread that watches shutdowns.
//!
//! An event loop that a task holds cannot see that its own shutdown is late, so another thread
//! watches. The loops of a group share it: it starts with the first shutdown and ends when none is
//! left. It runs no user code: each report of a late shutdown has a thread of its own.

use std::sync::Arc;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Clock, Parker, ThreadBuilder};

/// What a look at a shutdown has found.
pub(crate) enum Look {
    /// The shutdown is over.
    Over,
    /// It is late if it is not over at this time.
    Until(u64),
    Late,
}

/// One shutdown.
pub(crate) struct Watched {
    pub(crate) look: Box<dyn Fn() -> Look + Send>,
    /// Reports that it is late. Runs user code.
    pub(crate) report: Box<dyn FnOnce() + Send>,
}

/// The shutdowns that one thread watches.
#[derive(Default)]
pub(crate) struct EndWatch {
    parker: Parker,
    watching: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    added: Vec<Watched>,
    has_thread: bool,
}

impl EndWatch {
    /// Watches one more shutdown, whose times are those of `clock`.
    pub(crate) fn add(self: &Arc<Self>, clock: &Clock, watched: Watched) {
        let mut watching = lock(&self.watching);
        watching.added.push(watched);
        if watching.has_thread {
            drop(watching);
            return self.wake();
        }
        let (watch, clock) = (Arc::clone(self), clock.clone());
        let spawned = ThreadBuilder::new("tidegate-end").spawn(move || watch.run(&clock));
        // If that thread cannot be started, a stuck event loop is not reported; everything else works.
        watching.has_thread = spawned.is_ok();
    }

    /// Makes the thread look again at every shutdown.
    pub(crate) fn wake(&self) {
        self.parker.unpark();
    }

    fn run(&self, clock: &Clock) {
        let mut all = Vec::new();
        loop {
            let mut watching = lock(&self.watching);
            all.append(&mut watching.added);
            if all.is_empty() {
                watching.has_thread = false;
                return;
            }
            drop(watching);
            let mut next = u64::MAX;
            let mut late = Vec::new();
            for watched in std::mem::take(&mut all) {
                match (watched.look)() {
                    Look::Over => {}
                    Look::Late => late.push(watched.report),
                    Look::Until(time) => {
                        next = next.min(time);
                        all.push(watched);
                    }
                }
            }
            for report in late {
                let _ = ThreadBuilder::new("tidegate-end").spawn(report);
            }
            if !all.is_empty() {
                clock.park_until(&self.parker, Some(next));
            }
        }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};

    use tidegate_core::ManualClock;

    use super::*;

    #[test]
    fn one_thread_watches_all_and_each_report_has_its_own() {
        let clock = ManualClock::new();
        let watch = Arc::new(EndWatch::default());
        let (looks, looked) = channel::<(u64, ThreadId)>();
        let (reports, reported) = channel();
        let over = Arc::new(AtomicU64::new(0));
        for at in [10, 20] {
            let (looks, time, over) = (looks.clone(), Clock::from(&clock), Arc::clone(&over));
            let reports = reports.clone();
            watch.add(
                &Clock::from(&clock),
                Watched {
                    look: Box::new(move || {
                        looks.send((at, thread::current().id())).unwrap();
                        match time.nanos() {
                            now if now >= at => Look::Late,
                            _ if over.load(Ordering::SeqCst) == at => Look::Over,
                            _ => Look::Until(at),
                        }
                    }),
                    report: Box::new(move || reports.send((at, thread::current().id())).unwrap()),
                },
            );
        }
        drop((looks, reports));
        let (_, watcher) = looked.iter().find(|(at, _)| *at == 20).unwrap();
        clock.advance(std::time::Duration::from_nanos(10));
        let (late, reporter) = reported.recv().unwrap();
        assert_eq!(late, 10);
        assert_ne!(reporter, watcher);
        over.store(20, Ordering::SeqCst);
        watch.wake();
        // The thread ends, and drops both ends of these channels with the shutdowns.
        assert!(looked.iter().all(|(_, by)| by == watcher));
        assert!(reported.recv().is_err(), "the second one was in time");
    }
}
