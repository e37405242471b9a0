//! How a pool ends: it takes no new jobs, runs accepted ones until a deadline, and reports the
//! rest.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use tidegate_core::internal::prim::lock;
use tidegate_core::{CancelToken, Parker, ThreadBuilder};
use tidegate_promise::SharedCompletion;

use crate::executor::{HandedBack, ShutdownError};
use crate::pool::queue::{Breach, Job, UsersQueue};
use crate::pool::raw::WorkerWake;
use crate::pool::shutdown_report::{ShutdownReport, StuckJob};

use super::lanes::{Lane, ShutdownPlan};
use super::shared::{PoolDispatchGuard, Shared};

/// The end of a pool of which a part broke its contract.
pub(super) struct BrokenPool {
    part: &'static str,
    why: String,
    queue: Option<UsersQueue>,
    wakes: Vec<WorkerWake<Job>>,
    left: Vec<Job>,
    over: bool,
}

impl Shared {
    /// Takes no more user jobs; accepted jobs run until the deadline. At half of the timeout, the
    /// running jobs are interrupted. A second call can only make the deadline earlier. With a
    /// timeout of zero, the calling thread handles the deadline itself.
    pub(crate) fn shutdown(
        &self,
        timeout: Duration,
    ) -> SharedCompletion<ShutdownReport, ShutdownError> {
        let stopped = self.termination();
        let deadline = self.clock.deadline(timeout);
        let interrupt_at = self.clock.deadline(timeout / 2);
        let mut turn = self.dispatcher.turn();
        let first = turn.shutdown.is_none();
        let done = turn.counts.done;
        let plan = turn.shutdown.get_or_insert(ShutdownPlan {
            deadline,
            interrupt_at,
            done,
        });
        plan.deadline = plan.deadline.min(deadline);
        plan.interrupt_at = plan.interrupt_at.min(interrupt_at);
        let wakes = self.close_lanes(&mut turn);
        turn.budget.clear();
        let over = is_over(&turn);
        drop(turn);
        drop(wakes);
        self.views.close();
        self.closing.cancel();
        if over {
            self.end();
        } else if timeout.is_zero() {
            self.halt();
        } else if first {
            self.watch_end();
        } else if let Some(reaper) = &*lock(&self.reaper) {
            reaper.unpark();
        }
        stopped
    }

    /// Takes no more jobs; accepted jobs run, however long they take.
    fn close(&self) {
        let mut turn = self.dispatcher.turn();
        if turn.is_closed() {
            return;
        }
        let wakes = self.close_lanes(&mut turn);
        let over = is_over(&turn);
        drop(turn);
        drop(wakes);
        self.views.close();
        self.closing.cancel();
        if over {
            self.end();
        }
    }

    /// Closes the pool because `part` broke its contract. The caller releases the guard and calls
    /// [`Shared::end_broken`].
    #[cold]
    fn close_broken(
        &self,
        turn: &mut PoolDispatchGuard<'_>,
        part: &'static str,
        why: String,
    ) -> BrokenPool {
        let was_closed = turn.is_closed();
        let wakes = self.close_lanes(turn);
        let mut left = Vec::new();
        turn.drain_user(&mut left);
        turn.counts.displaced += left.len() as u64;
        BrokenPool {
            part,
            why,
            queue: None,
            wakes,
            left,
            over: !was_closed && is_over(turn),
        }
    }

    /// Does so if the user's queue broke its contract.
    #[cold]
    pub(super) fn close_for_queue(&self, turn: &mut PoolDispatchGuard<'_>) -> Option<BrokenPool> {
        let (Breach(why), queue) = *turn.breach.take()?;
        let mut broken = self.close_broken(turn, "the queue", why);
        broken.queue = Some(queue);
        Some(broken)
    }

    /// Closes the pool because the source of its threads broke its contract. `job` is dropped with
    /// those that wait.
    #[cold]
    pub(super) fn break_pool(&self, part: &'static str, why: &str, job: Option<Job>) {
        let mut turn = self.dispatcher.turn();
        turn.counts.displaced += u64::from(job.is_some());
        let mut broken = self.close_broken(&mut turn, part, why.to_owned());
        broken.left.extend(job);
        self.end_turn(turn, || self.end_broken(broken));
    }

    /// Reports what the part did, once, and drops the jobs that waited as displaced.
    #[cold]
    pub(super) fn end_broken(&self, broken: BrokenPool) {
        let BrokenPool { part, why, .. } = broken;
        drop(broken.wakes);
        self.views.close();
        self.closing.cancel();
        let is_first = self.failed_part.set(format!("{part}: {why}")).is_ok();
        if is_first {
            self.report_part(part, &format!("{why}; the pool is closed"));
        }
        self.displace(broken.left);
        drop(broken.queue);
        if broken.over {
            self.end();
        }
    }

    /// Returns which part of the user's broke its contract, and how, if that closed the pool.
    pub(crate) fn failed_part(&self) -> Option<&str> {
        self.failed_part.get().map(String::as_str)
    }

    /// Closes the pool for new jobs and for its timer, unless it is closed. The pool does not end
    /// before the timer's thread has cancelled the pending tasks.
    fn close_lanes(&self, turn: &mut PoolDispatchGuard<'_>) -> Vec<WorkerWake<Job>> {
        if turn.is_closed() {
            return Vec::new();
        }
        self.show_no_room();
        let shared = self.arc();
        // Closed under the guard: the timer's thread takes it before it clears the flag.
        if let Some(pending) = self.timer.close(move || shared.timers_are_cancelled()) {
            turn.cancelling_timers = true;
            turn.cancelled_timers = pending as u64;
        }
        turn.close()
    }

    /// Called when the pending tasks of the timer are cancelled. Ends the pool if only that was
    /// missing.
    fn timers_are_cancelled(&self) {
        let mut turn = self.dispatcher.turn();
        turn.cancelling_timers = false;
        let (over, reported) = (is_over(&turn), turn.termination.is_none());
        drop(turn);
        if over {
            self.end();
        } else if reported {
            self.leave_unstarted();
        }
    }

    /// Wakes the waiters of all unstarted tasks, including those of the views.
    fn leave_unstarted(&self) {
        self.left.leave(self.id);
        self.views.leave();
    }

    /// Starts the thread that interrupts running jobs at half of the timeout, and that calls
    /// `halt` at the deadline. If it cannot be started, nothing enforces the deadline: the pool
    /// ends when its jobs have ended.
    fn watch_end(&self) {
        let parker = Parker::new();
        *lock(&self.reaper) = Some(parker.clone());
        let shared = self.arc();
        let done = parker.clone();
        self.termination().on_complete(move |_| done.unpark());
        let reaper = ThreadBuilder::new("tidegate-end").spawn(move || reap(&shared, &parker));
        if reaper.is_err() {
            // No thread will cancel the token at half of the timeout, so cancel it now.
            self.stopping.cancel();
        }
    }

    /// Handles the deadline: hands back the jobs that have not begun and reports those that still
    /// run.
    fn halt(&self) {
        let mut turn = self.dispatcher.turn();
        let posts = turn.workers.list();
        let seats: Vec<_> = posts
            .iter()
            .map(|post| Arc::clone(&post.worker_slot))
            .collect();
        let mut left = Vec::new();
        let wakes = turn.dismiss(&seats, &mut left);
        let stuck = posts.iter().filter_map(|post| {
            let task = post.running.now()?;
            let thread = post.thread.get().map_or("?", String::as_str);
            Some(StuckJob {
                thread: thread.to_owned(),
                task: task.name,
            })
        });
        let stuck = stuck.collect();
        self.report(turn, wakes, left, stuck);
        // This runs the listeners of the token on this thread. They may take long, so it comes
        // last.
        self.stopping.cancel();
    }

    /// Hands back the queued jobs and reports the end. Called when a pool is over: by the last
    /// worker, by the timer's thread, by the closing thread if there is neither, or after a failed
    /// start.
    pub(super) fn end(&self) {
        self.report(self.dispatcher.turn(), Vec::new(), Vec::new(), Vec::new());
    }

    /// Hands back `left` and the queued jobs, and completes the report. Internal jobs stay as long
    /// as the pool has a thread: it runs them before it ends. Without a thread, those that only an
    /// executor can run are dropped.
    ///
    /// The jobs and the promise are taken under the dispatch guard `turn`. The guard and `wakes`
    /// are then dropped, which wakes the threads, and the promise is completed after that. The
    /// first call completes the report with all accepted jobs. A later call may find more jobs:
    /// internal jobs, which a closed pool accepts while it has a thread. It adds them to the
    /// `handed_back` list of the same report.
    fn report(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        wakes: Vec<WorkerWake<Job>>,
        mut left: Vec<Job>,
        stuck: Vec<StuckJob>,
    ) {
        turn.drain_user(&mut left);
        if turn.threads() > 0 {
            let (internal, users): (Vec<_>, _) = left.into_iter().partition(Job::is_internal);
            left = users;
            for job in internal {
                turn.push(Lane::Internal, job);
            }
        } else {
            turn.drain_internal(&mut left);
        }
        let before = turn.shutdown.map_or(turn.counts.done, |plan| plan.done);
        let ran = turn.counts.done - before;
        let promise = turn.termination.take();
        let broken = self.close_for_queue(&mut turn);
        let (cancelled, cancelling) = (turn.cancelled_timers, turn.cancelling_timers);
        drop(turn);
        drop(wakes);
        if let Some(broken) = broken {
            self.end_broken(broken);
        }
        // Before a turn among these jobs can be taken and run elsewhere.
        self.views.end();
        let handed_back = self.handed_back();
        handed_back.add(left.into_iter().map(Job::into_task));
        if let Some(promise) = promise {
            // The promise cannot be cancelled, so this cannot fail.
            let _ = promise.complete(Ok(ShutdownReport {
                ran,
                cancelled,
                handed_back,
                stuck,
            }));
        }
        // A task that is about to be cancelled is not unstarted. Its waiters hear of the
        // cancellation first.
        if !cancelling {
            self.leave_unstarted();
        }
        self.drop_report();
    }

    /// Returns the jobs that were accepted and will not start.
    pub(crate) fn handed_back(&self) -> HandedBack {
        let ending = lock(&self.ending);
        let handed_back = ending.as_ref().map(|ending| ending.handed_back.clone());
        drop(ending);
        handed_back.unwrap_or_default()
    }

    /// Returns the token that interrupts running jobs.
    pub(crate) fn shutdown_token(&self) -> CancelToken {
        self.stopping.clone()
    }

    /// Counts one more handle, which is also a taker.
    pub(crate) fn add_handle(&self) {
        self.takers.fetch_add(1, Ordering::Relaxed);
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one handle less. When the last handle is dropped, the pool takes no more jobs, runs
    /// the accepted ones and ends.
    pub(crate) fn drop_handle(&self) {
        // ORDERING: AcqRel: the last handle's drop happens after every other's.
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }

    /// Counts one taker less. After the last one, nobody can take what the pool hands back, except
    /// from a report.
    pub(crate) fn drop_taker(&self) {
        // ORDERING: AcqRel: the last taker's drop happens after every other's.
        if self.takers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.drop_report();
        }
    }

    /// Returns a completion for the end of the pool.
    pub(crate) fn termination(&self) -> SharedCompletion<ShutdownReport, ShutdownError> {
        let ending = lock(&self.ending);
        let stopped = ending.as_ref().map(|ending| ending.stopped.clone());
        stopped.unwrap_or_else(|| {
            let lost = tidegate_promise::Completion::failed(ShutdownError::Lost);
            lost.share()
                .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
        })
    }

    /// Drops the report of a pool that has ended and has no taker.
    fn drop_report(&self) {
        // ORDERING: SeqCst fence: the end of the pool has just taken `termination`, and the drop of
        // the last taker has just decremented `takers`. Each then reads both values, so at least
        // one of them sees the other's write.
        fence(Ordering::SeqCst);
        let over = self.dispatcher.turn().termination.is_none();
        if over && self.takers.load(Ordering::Relaxed) == 0 {
            let ending = lock(&self.ending).take();
            drop(ending);
        }
    }
}

/// Returns `true` if a pool is closed, and has no thread and no timer that could do anything.
pub(super) fn is_over(turn: &PoolDispatchGuard<'_>) -> bool {
    turn.is_closed() && turn.threads() == 0 && !turn.cancelling_timers
}

fn reap(shared: &Arc<Shared>, parker: &Parker) {
    let stopped = shared.termination();
    loop {
        if stopped.is_done() {
            return;
        }
        let Some(plan) = shared.dispatcher.turn().shutdown else {
            return;
        };
        let now = shared.clock.nanos();
        if now >= plan.deadline {
            return shared.halt();
        }
        let next = if now >= plan.interrupt_at {
            interrupt_jobs(shared);
            plan.deadline
        } else {
            plan.interrupt_at
        };
        shared.clock.park_until(parker, Some(next));
    }
}

/// Cancels the token that running jobs check: on a separate thread, because that may run user code,
/// for which the deadline must not wait. If no thread can be started, cancels the token here.
fn interrupt_jobs(shared: &Arc<Shared>) {
    if shared.stopping.is_cancelled() {
        return;
    }
    let aside = Arc::clone(shared);
    let interrupter = ThreadBuilder::new("tidegate-interrupt").spawn(move || {
        aside.stopping.cancel();
    });
    if interrupter.is_err() {
        shared.stopping.cancel();
    }
}
