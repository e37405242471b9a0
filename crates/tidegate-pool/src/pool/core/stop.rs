//! How a pool ends: no new jobs, the rest until a deadline, and a report of what was left.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use tidegate_core::prim::lock;
use tidegate_core::{CancelToken, Parker, ThreadBuilder, contain};

use crate::executor::ShutdownError;
use crate::pool::queue::Job;
use crate::pool::raw::Wake;
use crate::pool::stop_report::{StopReport, Stopped, StuckJob};

use super::lanes::StopPlan;
use super::shared::{PoolTurn, Shared};

/// Panics of a queue in a row after which the end leaves it alone.
const QUEUE_PANICS: usize = 2;

impl Shared {
    /// Takes no more jobs; what was accepted runs until the deadline. A second call can only
    /// make it earlier.
    pub(crate) fn stop(&self, timeout: Duration) -> Stopped {
        let stopped = self.stopped();
        let deadline = self.clock.deadline(timeout);
        let tell_at = self.clock.deadline(timeout / 2);
        let mut turn = self.desk.turn();
        let first = turn.stop.is_none();
        let done = turn.counts.done;
        let plan = turn.stop.get_or_insert(StopPlan {
            deadline,
            tell_at,
            done,
        });
        plan.deadline = plan.deadline.min(deadline);
        plan.tell_at = plan.tell_at.min(tell_at);
        let wakes = if turn.is_closed() {
            Vec::new()
        } else {
            self.show_no_room();
            turn.close()
        };
        turn.budget.clear();
        let empty = turn.threads() == 0;
        drop(turn);
        drop(wakes);
        self.closing.cancel();
        if empty {
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

    /// Takes no more jobs; what was accepted runs, however long that takes.
    fn close(&self) {
        let mut turn = self.desk.turn();
        if turn.is_closed() {
            return;
        }
        self.show_no_room();
        let wakes = turn.close();
        let empty = turn.threads() == 0;
        drop(turn);
        drop(wakes);
        self.closing.cancel();
        if empty {
            self.end();
        }
    }

    /// Starts the thread that keeps the deadline.
    fn watch_end(&self) {
        let parker = Parker::new();
        *lock(&self.reaper) = Some(parker.clone());
        let shared = self.arc();
        let done = parker.clone();
        self.stopped().on_complete(move |_| done.unpark());
        let reaper = ThreadBuilder::new("tidegate-end").spawn(move || reap(&shared, &parker));
        if reaper.is_err() {
            // Nobody will come back at half time: tell the running jobs now.
            self.stopping.cancel();
        }
    }

    /// The deadline has come: hands back what has not begun and reports what still runs.
    fn halt(&self) {
        let mut turn = self.desk.turn();
        let posts = turn.roster.clone();
        let seats: Vec<_> = posts.iter().map(|post| Arc::clone(&post.seat)).collect();
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
        // Whoever listens to the token may take its time.
        self.stopping.cancel();
    }

    /// The last thread has left: hands back what waits and reports the end.
    pub(super) fn end(&self) {
        self.report(self.desk.turn(), Vec::new(), Vec::new(), Vec::new());
    }

    /// Hands back `left` and what waits, and reports, in one turn: the first one to come here has
    /// the report, and all that was accepted is in it. What a later one finds, because the runtime
    /// has accepted it since or the queue did not give it up, is added to the same tasks. `wakes`
    /// are the threads to be woken before anybody hears of the end.
    fn report(
        &self,
        mut turn: PoolTurn<'_>,
        wakes: Vec<Wake<Job>>,
        mut left: Vec<Job>,
        stuck: Vec<StuckJob>,
    ) {
        let mut panics = Vec::new();
        while panics.len() < QUEUE_PANICS
            && let Err(panic) = contain(|| turn.drain(&mut left))
        {
            panics.push(panic);
        }
        let before = turn.stop.map_or(turn.counts.done, |plan| plan.done);
        let ran = turn.counts.done - before;
        let promise = turn.termination.take();
        drop(turn);
        drop(wakes);
        for panic in panics {
            self.hear_panic("the queue of a pool", panic);
        }
        let ending = lock(&self.ending);
        let handed_back = ending.as_ref().map(|ending| ending.handed_back.clone());
        drop(ending);
        let handed_back = handed_back.unwrap_or_default();
        handed_back.add(left.into_iter().map(Job::into_task));
        if let Some(promise) = promise {
            // Nobody can cancel an end.
            let _ = promise.complete(Ok(StopReport {
                ran,
                handed_back,
                stuck,
            }));
        }
        self.left.leave(self.id);
        self.let_go();
    }

    /// Returns the token that tells running jobs to stop.
    pub(crate) fn stop_token(&self) -> CancelToken {
        self.stopping.clone()
    }

    /// Counts another handle.
    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handle less. The pool of the last one takes no more jobs, runs what it has accepted
    /// and ends.
    pub(crate) fn drop_handle(&self) {
        // ORDERING: AcqRel: the last handle's drop comes after every other's.
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
            self.let_go();
        }
    }

    /// The end of the pool, for whoever wants to know.
    pub(crate) fn stopped(&self) -> Stopped {
        let ending = lock(&self.ending);
        let stopped = ending.as_ref().map(|ending| ending.stopped.clone());
        stopped.unwrap_or_else(|| {
            let lost = tidegate_promise::Completion::failed(ShutdownError::Lost);
            lost.share()
                .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
        })
    }

    /// Forgets what is left to see of a pool that is over and has no handle.
    fn let_go(&self) {
        // ORDERING: SeqCst fence: of the end and the last handle's drop, each of which has just
        // written one of the two words and now reads both, at least one sees the other.
        fence(Ordering::SeqCst);
        let over = self.desk.turn().termination.is_none();
        if over && self.handles.load(Ordering::Relaxed) == 0 {
            let ending = lock(&self.ending).take();
            drop(ending);
        }
    }
}

fn reap(shared: &Arc<Shared>, parker: &Parker) {
    let stopped = shared.stopped();
    loop {
        if stopped.is_done() {
            return;
        }
        let Some(plan) = shared.desk.turn().stop else {
            return;
        };
        let now = shared.clock.nanos();
        if now >= plan.deadline {
            return shared.halt();
        }
        let next = if now >= plan.tell_at {
            tell_to_stop(&shared.stopping);
            plan.deadline
        } else {
            plan.tell_at
        };
        shared.clock.park_until(parker, Some(next));
    }
}

/// Trips the token that running jobs look at. On a thread of its own: what listens to it is code
/// of the user's, and the deadline does not wait for that.
fn tell_to_stop(stopping: &CancelToken) {
    if stopping.is_cancelled() {
        return;
    }
    let token = stopping.clone();
    let told = ThreadBuilder::new("tidegate-tell").spawn(move || {
        token.cancel();
    });
    if told.is_err() {
        stopping.cancel();
    }
}
