//! The turns of an event loop whose tasks run through a strategy: they hand tasks out instead of
//! running them.
//!
//! Signals, timers, timeouts and tasks that never block still run in place, with the thread marked
//! as the event loop's: a blocking wait in them is refused. Other submitted tasks and those of the
//! driver are handed out one at a time, so tasks that were not handed out stay with the next
//! producing thread.
//!
//! # Invariants
//!
//! * The thread is the event loop's only inside `produce`. A task that was handed out runs like any
//!   other task of its pool: its submissions to the event loop go through the lanes.
//! * A submitted task that may block is counted from the hand-out until it has run or was dropped.
//!   The event loop does not end before that, unless its shutdown deadline passes.

use std::sync::Arc;

use tidegate_core::internal::{PlainTask, contain};
use tidegate_core::{Blocking, Task, Unhandled};
use tidegate_pool::ShutdownError;
use tidegate_pool::internal::run_task_of;

use super::budget::BUDGET;
use super::driver::Driver;
use super::loop_core::{Batch, Core, Turn};
use super::run_task::{report_panic, run_task};
use crate::spawn::slots::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Produced, Shared};
use crate::thread::enter::EnteredLoop;
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Looks for a task, with the calling thread marked as the event loop's thread.
    pub(super) fn produce_entered(&mut self, shared: &Arc<Shared>) -> Produced {
        shared.meter.counters.producing.set(1);
        let entered = EnteredLoop::new(shared, &mut self.loop_state, LocalFutures::default());
        self.driver.enter();
        let made = contain(|| self.next(shared));
        let made = made.unwrap_or_else(|panic| {
            self.give_up(shared, &|handed_back| ShutdownError::Panicked {
                message: panic.message().to_owned(),
                handed_back,
            });
            Produced::Over
        });
        self.driver.leave();
        self.loop_state = Some(entered.leave().loop_state);
        if !matches!(made, Produced::Task(_)) {
            shared.meter.running.idle();
        }
        if let Produced::Leave | Produced::Over = made {
            let busy = shared.clock.nanos().saturating_sub(self.awake_since);
            shared.meter.counters.awake_since.set(0);
            shared.meter.counters.busy.add(busy);
        }
        if matches!(made, Produced::Over) {
            self.finish(shared);
        }
        shared.meter.counters.producing.set(0);
        made
    }

    fn next(&mut self, shared: &Arc<Shared>) -> Produced {
        loop {
            if !self.batch.open {
                self.open_batch(shared);
            }
            if let Some((task, several)) = self.hand_out(shared) {
                shared.meter.running.begin(&task);
                (1..several).for_each(|_| shared.meter.running.next_step());
                return Produced::Task(task);
            }
            self.batch.open = false;
            // The last task that was handed out is not the event loop's any more.
            shared.meter.running.idle();
            let turn = Turn::of(self.batch.ran, self.batch.ran || self.batch.driver > 0);
            if turn != Turn::Idle {
                self.last_work = self.batch.now;
            }
            if self.manual {
                if let Some(end) = self.after_manual_turn(shared, turn) {
                    return end;
                }
            } else if self.after_turn(shared, turn) {
                return if self.progress.is_over() {
                    Produced::Over
                } else {
                    Produced::Leave
                };
            }
        }
    }

    fn after_manual_turn(&mut self, shared: &Arc<Shared>, turn: Turn) -> Option<Produced> {
        let state = shared.state.get();
        self.seen_state = state;
        let hooks = self.progress.hooks();
        if state >= Lifecycle::ShuttingDown && self.wind_down(shared, turn) {
            return Some(Produced::Over);
        }
        local::give_back_spare();
        self.task_receiver.publish();
        (turn == Turn::Idle && self.progress.hooks() == hooks).then_some(Produced::Nothing)
    }

    fn open_batch(&mut self, shared: &Shared) {
        shared.meter.running.idle();
        let now = self.begin(shared);
        let mut ran = self.run_signals(shared);
        ran |= self.run_due(shared, now);
        self.batch = Batch {
            open: true,
            now,
            ran,
            ..Batch::default()
        };
    }

    /// Returns the next task of this turn to hand out, and for how many tasks it counts.
    fn hand_out(&mut self, shared: &Arc<Shared>) -> Option<(Task, usize)> {
        while let Some(task) = self.submitted(shared) {
            self.batch.ran = true;
            if task.blocking() != Blocking::Never {
                return Some((counted(shared, task), 1));
            }
            run_task(shared, task);
        }
        if !std::mem::replace(&mut self.batch.looked_out, true) {
            self.poll_driver(self.batch.ran);
        }
        if self.batch.driver == BUDGET || shared.is_out_of_time() {
            return None;
        }
        let most = self.most_of_driver(shared, self.batch.driver);
        let (task, several) = self.driver.next_tasks(most)?;
        if self.batch.driver == 0 {
            let (now, ran) = (self.batch.now, self.batch.ran);
            self.begin_kind(shared, now, ran, shared.settings.spans.io);
        }
        let several = several.max(1);
        self.batch.driver += several;
        if self.pace.steps(several) && self.check_clock(shared) {
            // The time is used up: this task is the last one of the turn.
            self.batch.driver = BUDGET;
        }
        shared.handed_out.set_of_driver(true);
        Some((task, several))
    }

    /// Returns the next submitted task of this turn, first the event loop's own. When they have used up
    /// the time, the lane still gets a stride.
    fn submitted(&mut self, shared: &Shared) -> Option<Task> {
        if shared.is_out_of_time() {
            return None;
        }
        let (task, is_own) = self.pop()?;
        // Reads the clock before the task runs, since it may run on another thread.
        if self.pace.step() && self.check_clock(shared) {
            self.batch.own = BUDGET;
            if !is_own {
                self.batch.lane = BUDGET;
            }
        }
        Some(task)
    }

    /// Returns the next submitted task, and whether it is one of the event loop's own.
    fn pop(&mut self) -> Option<(Task, bool)> {
        if self.batch.own < BUDGET
            && let Some(task) = local::pop()
        {
            self.batch.own += 1;
            return Some((task, true));
        }
        if self.batch.lane == BUDGET {
            return None;
        }
        let task = self.task_receiver.pop()?;
        self.batch.lane += 1;
        self.task_receiver.publish();
        Some((task, false))
    }
}

/// Counts a task that may outlive the turn, from now until it has run or was dropped.
fn counted(shared: &Arc<Shared>, task: Task) -> Task {
    shared.handed_out.set_of_driver(false);
    let (kind, name, long) = (task.blocking(), task.name(), task.is_long());
    shared.handed_out.begin(name);
    let mut one = HandedOutGuard {
        shared: Arc::clone(shared),
        name,
        ran: false,
    };
    let run = move || {
        one.ran = true;
        // The event loop reports the panic, on whichever thread the task runs.
        if let Err(panic) = run_task_of(one.shared.id, || contain(|| task.run())) {
            report_panic(&one.shared, name, panic);
        }
    };
    match kind {
        Blocking::May if long => PlainTask::long(run),
        Blocking::May => PlainTask::named(name, run),
        Blocking::Adapts | Blocking::Never => PlainTask::of(kind, run),
    }
}

/// The guard of a handed-out task. Its drop, after the task has run or was dropped, ends the count.
struct HandedOutGuard {
    shared: Arc<Shared>,
    name: &'static str,
    ran: bool,
}

impl Drop for HandedOutGuard {
    fn drop(&mut self) {
        if !self.ran {
            report_drop(&self.shared, self.name);
        }
        if self.shared.handed_out.end() {
            self.shared.mailbox.waker.wake();
        }
    }
}

/// Reports a task that the strategy or its executor dropped without running it.
#[cold]
fn report_drop(shared: &Shared, task: &str) {
    let strategy = shared.thread.strategy_name().unwrap_or("the strategy");
    let message = format!("{strategy} or its executor dropped task `{task}` before it ran");
    shared.unhandled(&Unhandled::Strategy { message: &message });
}
