//! The thread that watches shutdowns.
//!
//! An event loop that a task holds cannot see that its own shutdown is late, so another thread
//! watches. The loops of a group share it: it starts with the first shutdown and ends with the last
//! one. A report runs user code, which may block, so another thread takes the watch over first.

use std::sync::Arc;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Clock, Parker, ThreadBuilder};

/// The shutdown of one event loop.
pub(crate) trait Ending: Send + Sync {
    /// Returns the identity of the event loop.
    fn id(&self) -> ExecutorId;

    /// Returns the time from which the shutdown is late; 0 if it is over. Must not run user code.
    fn late_at(&self) -> u64;

    /// Reports that the shutdown is late, unless it is over. Runs user code.
    fn report_late(&self);
}

/// The shutdowns of event loops on one clock.
pub(crate) struct EndWatch {
    clock: Clock,
    parker: Parker,
    watching: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    endings: Vec<Arc<dyn Ending>>,
    /// `true` while a thread watches.
    has_thread: bool,
    /// The time until which that thread sleeps.
    until: u64,
}

impl EndWatch {
    pub(crate) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            parker: Parker::new(),
            watching: Mutex::default(),
        })
    }

    /// Watches one more shutdown.
    pub(crate) fn add(self: &Arc<Self>, ending: Arc<dyn Ending>) {
        let mut watching = lock(&self.watching);
        let late_at = ending.late_at();
        watching.endings.push(ending);
        match watching.has_thread {
            true => self.wake_before(late_at, &watching),
            // If no thread can be started, a stuck event loop is not reported; everything else works.
            false => watching.has_thread = self.spawn(),
        }
    }

    /// Stops watching the shutdown of the event loop `id`, which is over.
    pub(crate) fn remove(&self, id: ExecutorId) {
        let mut watching = lock(&self.watching);
        let at = watching.endings.iter().position(|one| one.id() == id);
        let over = at.map(|at| watching.endings.swap_remove(at));
        if watching.endings.is_empty() {
            self.parker.unpark();
        }
        drop(watching);
        // Without the lock: it may be the last reference.
        drop(over);
    }

    /// Records that a shutdown will be late earlier than before: from `late_at` on.
    pub(crate) fn tighten(&self, late_at: u64) {
        self.wake_before(late_at, &lock(&self.watching));
    }

    fn wake_before(&self, late_at: u64, watching: &Watching) {
        if late_at < watching.until {
            self.parker.unpark();
        }
    }

    fn spawn(self: &Arc<Self>) -> bool {
        let watch = Arc::clone(self);
        let thread = ThreadBuilder::new("tidegate-end").spawn(move || watch.run());
        thread.is_ok()
    }

    fn run(self: &Arc<Self>) {
        while let Some(late) = self.next_late() {
            let passed_on = self.pass_on();
            late.report_late();
            if passed_on {
                return;
            }
        }
    }

    /// Waits until a shutdown is late, and removes it. Returns `None` if none is left.
    fn next_late(&self) -> Option<Arc<dyn Ending>> {
        loop {
            let mut watching = lock(&self.watching);
            let times = watching.endings.iter().map(|one| one.late_at());
            let Some((late_at, at)) = times.zip(0..).min() else {
                watching.has_thread = false;
                return None;
            };
            if self.clock.nanos() >= late_at {
                return Some(watching.endings.swap_remove(at));
            }
            watching.until = late_at;
            drop(watching);
            self.clock.park_until(&self.parker, Some(late_at));
        }
    }

    /// Lets another thread continue with the others, if there are any. Returns `false` if none can be
    /// started.
    fn pass_on(self: &Arc<Self>) -> bool {
        let mut watching = lock(&self.watching);
        watching.has_thread = !watching.endings.is_empty();
        !watching.has_thread || self.spawn()
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    //! How many threads watch, and what a report that blocks holds up: nothing.

    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use tidegate_core::ManualClock;
    use tidegate_testkit::{Gate, Log, until};

    use super::*;

    /// A shutdown that logs which threads look at it, and when it is reported.
    struct Shutdown {
        id: ExecutorId,
        late_at: AtomicU64,
        looks: Log<ThreadId>,
        reports: Log<u64>,
        go_on: Gate,
    }

    impl Ending for Shutdown {
        fn id(&self) -> ExecutorId {
            self.id
        }

        fn late_at(&self) -> u64 {
            self.looks.push(thread::current().id());
            self.late_at.load(Ordering::SeqCst)
        }

        fn report_late(&self) {
            self.reports.push(self.late_at.load(Ordering::SeqCst));
            self.go_on.wait();
        }
    }

    #[test]
    fn one_thread_watches_all_and_a_report_that_blocks_holds_none_up() {
        let clock = ManualClock::new();
        let watch = EndWatch::new(&Clock::from(&clock));
        let (looks, reports, go_on) = (Log::new(), Log::new(), Gate::new());
        let endings = [10, 20, 90, 100].map(|late_at| {
            Arc::new(Shutdown {
                id: ExecutorId::next(),
                late_at: AtomicU64::new(late_at),
                looks: looks.clone(),
                reports: reports.clone(),
                go_on: go_on.clone(),
            })
        });
        for ending in endings.iter().rev() {
            watch.add(Arc::<Shutdown>::clone(ending));
        }
        until("the watcher sleeps", || {
            clock.next_deadline() == Some(clock.now() + Duration::from_nanos(10))
        });
        let mut watchers = looks.take();
        watchers.retain(|by| *by != thread::current().id());
        watchers.dedup();
        assert_eq!((watchers.len(), clock.sleepers()), (1, 1));
        clock.jump(Duration::from_nanos(10));
        reports.wait_for(1);
        clock.jump(Duration::from_nanos(10));
        reports.wait_for(2);
        // The third one gets an earlier deadline, the fourth one ends in time.
        endings[2].late_at.store(20, Ordering::SeqCst);
        watch.tighten(20);
        reports.wait_for(3);
        watch.remove(endings[3].id);
        go_on.open();
        until("no thread is left", || Arc::strong_count(&watch) == 1);
        assert_eq!(reports.take(), [10, 20, 20]);
        assert!(endings.iter().all(|one| Arc::strong_count(one) == 1));
    }

    #[test]
    fn the_loops_of_a_group_share_a_watch() {
        let group = crate::EventLoopGroup::builder("io").loops(3).build();
        let group = group.unwrap();
        let watches: Vec<_> = group.iter().map(|one| one.shared.plan.watch()).collect();
        assert!(watches.iter().all(|one| Arc::ptr_eq(one, watches[0])));
    }
}
