//! How an event loop starts, and how its shutdown begins.
//!
//! Both are in one file because each may lead to the other: an event loop that has work left when
//! its shutdown is requested gets a thread for it, and the end of a start continues with a shutdown
//! that was requested meanwhile. `thread/slot.rs` describes the start in detail,
//! `shutdown/steps.rs` the steps of the shutdown.

use tidegate_core::internal::prim::MutexGuard;
use tidegate_core::internal::{ThreadWatch, contain};
use tidegate_core::{RejectReason, ThreadBuilder, Unhandled};
use tidegate_pool::ShutdownError;

use super::lifecycle::Lifecycle;
use super::shared::Shared;
use crate::shutdown::deadline;
use crate::shutdown::report::ShutdownReport;
use crate::thread::presence::ThreadPresence;
use crate::thread::run::run_thread;
use crate::thread::slot::{Launch, Slot, as_spawner};

/// The result of ending an event loop without a thread.
enum WithoutThread {
    /// The event loop has ended.
    Over,
    /// The event loop has a thread now, which ends it.
    HasOne,
    /// A start is in progress; the thread that ends the start continues with the shutdown.
    Starting,
}

impl Shared {
    /// Starts a thread for the event loop if it has none, or waits for a start that is in progress.
    #[cold]
    pub(crate) fn start(&self) -> Result<(), RejectReason> {
        match self.thread.claim_start(&self.state, self.id) {
            Some(slot) => self.start_with(slot),
            None => Ok(()),
        }
    }

    /// Starts a thread if there is none and no start is in progress. For callers that cannot return
    /// a failure to a submitter: after a failure, the work in the lanes runs with the next start.
    pub(crate) fn ensure_thread(&self) {
        if !self.state.needs_thread() {
            return;
        }
        let slot = self.thread.lock();
        if self.state.needs_thread() && !slot.is_starting() {
            let _ = self.start_with(slot);
        }
    }

    fn start_with(&self, mut slot: MutexGuard<'_, Slot>) -> Result<(), RejectReason> {
        let (number, how) = slot.begin_start();
        drop(slot);
        let started = as_spawner(self.id, || contain(|| self.launch(how)));
        let started = started.unwrap_or_else(|panic| {
            let message = panic.message();
            self.unhandled(&Unhandled::HookPanic { message });
            Err(RejectReason::NoThread)
        });
        let slot = self.thread.lock();
        if !slot.is_start(number) {
            // The thread has arrived, so the spawner's result does not matter.
            return Ok(());
        }
        self.end_start(slot, started.is_ok());
        started
    }

    fn launch(&self, how: Launch) -> Result<(), RejectReason> {
        match how {
            Launch::Strategy(strategy) => strategy.dispatch().map_err(|no| no.why()),
            Launch::Thread(builder) => self.spawn_thread(&builder),
            // The owner runs the turns.
            Launch::ByHand => Ok(()),
        }
    }

    fn spawn_thread(&self, builder: &ThreadBuilder) -> Result<(), RejectReason> {
        let member = self.clock.join();
        let shared = self.arc();
        let present = ThreadPresence::join(&self.thread.presence);
        let thread = builder.spawn_watched(move |watch| {
            present.arrive();
            shared.arrive(Some(watch));
            run_thread(&shared, member);
        });
        let thread = thread.map_err(|_| RejectReason::NoThread)?;
        self.thread.lock().set_watch_if_none(|| thread.watch());
        Ok(())
    }

    /// Records that the event loop has a thread. Called by a thread that is about to drive it.
    pub(crate) fn arrive(&self, watch: Option<&ThreadWatch>) {
        let mut slot = self.thread.lock();
        if let Some(watch) = watch {
            slot.set_watch(watch);
        }
        if slot.is_starting() {
            self.end_start(slot, true);
        } else if watch.is_none() && self.state.needs_thread() {
            // A strategy may send a thread at any time, also after it has refused to. A shutdown
            // has to find this thread.
            self.state.begin();
        }
    }

    /// Ends a start: marks the event loop as started if it has its thread, and wakes waiting
    /// submitters.
    fn end_start(&self, mut slot: MutexGuard<'_, Slot>, started: bool) {
        let over = slot.end_start();
        if started {
            self.state.begin();
        }
        drop(slot);
        if over.wake_waiters() {
            self.begin_end();
        }
    }

    /// Begins the shutdown as the plan says: at once, on the event loop's thread, or after the
    /// start that is in progress.
    pub(crate) fn begin_end(&self) {
        loop {
            let before = self.state.get();
            if before >= Lifecycle::ShuttingDown {
                deadline::tighten(self);
                break;
            }
            if self.state.needs_thread() {
                match self.end_without_thread() {
                    WithoutThread::Over | WithoutThread::Starting => return,
                    WithoutThread::HasOne => {}
                }
            } else if self.state.advance(before, Lifecycle::ShuttingDown) {
                deadline::watch(self);
                break;
            }
        }
        // Wakes the driver even if it does not sleep: the event loop has to read its state.
        let _ = self.mailbox.bell.ring();
        self.wake_driver();
    }

    /// Ends an event loop that has no thread and no work, on the calling thread. An event loop that
    /// has work gets a thread instead.
    fn end_without_thread(&self) -> WithoutThread {
        let mut slot = self.thread.lock();
        if !self.state.needs_thread() {
            return WithoutThread::HasOne;
        }
        if slot.defer_shutdown() {
            return WithoutThread::Starting;
        }
        let is_idle = || self.hooks.is_empty() && self.mailbox.is_empty();
        if is_idle() {
            // Closes the lane, then checks again: a task that was accepted in between gets a
            // thread.
            self.mailbox.lane.close();
        }
        let idle = is_idle();
        if !idle {
            drop(slot);
            if self.start().is_ok() {
                return WithoutThread::HasOne;
            }
            slot = self.thread.lock();
            if !self.state.needs_thread() || slot.is_starting() {
                return WithoutThread::HasOne;
            }
        }
        // No thread can be started while the lock is held.
        self.mailbox.lane.close();
        self.state.raise(Lifecycle::Shutdown);
        drop(slot);
        drop(self.mailbox.signals.close());
        let handed_back = self.termination.handed_back();
        // A submitter may have pushed a task in between; the task is handed back, not lost.
        if let Some(core) = self.core.take() {
            handed_back.add(core.dissolve());
        }
        self.terminate(if idle {
            Ok(ShutdownReport {
                handed_back,
                ..ShutdownReport::default()
            })
        } else {
            Err(ShutdownError::NoThread { handed_back })
        });
        WithoutThread::Over
    }
}
