//! A loop whose tasks a strategy has run: turns that hand tasks out instead of running them.
//!
//! Signals, timers, timeouts and tasks that say that they never block are still run in place, with
//! the thread being the loop's: a wait in them is refused. Other submitted tasks and those of the
//! driver are handed out one at a time, so what was not handed out stays with whoever produces
//! next.
//!
//! # Invariants
//!
//! * The thread is the loop's only inside `produce`. A task that was handed out runs as any other
//!   work of its pool: what it submits to the loop goes through the lanes.
//! * A submitted task that may block is counted from here until it has run or was dropped: the
//!   loop does not end before, unless its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{Blocking, Sleeper, Task, contain};
use tidegate_pool::ShutdownError;

use super::turn::{BUDGET, Core, Turn};
use crate::core::driver::Driver;
use crate::core::run_task::{report_panic, run_task};
use crate::spawn::future::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;
use crate::thread::local::{self, Entered};

/// What a look for a task came to.
pub(crate) enum Produced {
    /// Here is one.
    Task(Task),
    /// Nothing now, and it must not wait: it is driven by hand.
    Nothing,
    /// The loop gives its thread back.
    Leave,
    /// The loop is over.
    Over,
}

/// How far a turn has come.
#[derive(Default)]
pub(super) struct Batch {
    open: bool,
    now: u64,
    ran: bool,
    own: usize,
    lane: usize,
    driver: usize,
    looked_out: bool,
    /// The time for submitted tasks is over.
    spent: bool,
}

impl<D: Driver> Core<D> {
    /// Looks for a task, with this thread being the loop's meanwhile.
    pub(super) fn produce_entered(&mut self, shared: &Arc<Shared>) -> Produced {
        let entered = Entered::new(shared, &mut self.kept, LocalFutures::default());
        self.driver.enter();
        let made = contain(|| self.next(shared));
        let made = made.unwrap_or_else(|panic| {
            let message = panic.message().to_owned();
            self.abandon(shared, |handed_back| ShutdownError::Panicked {
                message,
                handed_back,
            });
            Produced::Over
        });
        self.driver.leave();
        self.kept = Some(entered.leave().kept);
        if !matches!(made, Produced::Task(_)) {
            shared.running.idle();
        }
        if let Produced::Leave | Produced::Over = made {
            let busy = shared.clock.nanos().saturating_sub(self.awake_since);
            shared.counters.awake_since.set(0);
            shared.counters.busy.add(busy);
        }
        if matches!(made, Produced::Over) {
            self.winding.finish(shared);
        }
        made
    }

    fn next(&mut self, shared: &Arc<Shared>) -> Produced {
        loop {
            if !self.batch.open {
                self.open_batch(shared);
            }
            if let Some(task) = self.hand_out(shared) {
                shared.running.begin(&task);
                self.batch.ran = true;
                return Produced::Task(task);
            }
            self.batch.open = false;
            let turn = if self.batch.ran {
                self.last_work = self.batch.now;
                Turn::Busy
            } else {
                Turn::Idle
            };
            if self.by_hand {
                if let Some(end) = self.after_turn_by_hand(shared, turn) {
                    return end;
                }
            } else if self.after_turn(shared, turn) {
                return if self.winding.is_over() {
                    Produced::Over
                } else {
                    Produced::Leave
                };
            }
        }
    }

    fn after_turn_by_hand(&mut self, shared: &Arc<Shared>, turn: Turn) -> Option<Produced> {
        let state = shared.state.get();
        self.seen = state;
        let hooks = self.winding.hooks();
        if state >= Lifecycle::ShuttingDown && self.wind_down(shared, turn) {
            return Some(Produced::Over);
        }
        local::give_back_spare();
        self.end.publish();
        (turn == Turn::Idle && self.winding.hooks() == hooks).then_some(Produced::Nothing)
    }

    fn open_batch(&mut self, shared: &Shared) {
        shared.running.idle();
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

    /// The next task of this turn.
    fn hand_out(&mut self, shared: &Arc<Shared>) -> Option<Task> {
        while let Some(task) = self.submitted(shared) {
            if task.blocking() != Blocking::Never {
                return Some(shared.out.count(shared, task));
            }
            self.batch.ran = true;
            run_task(shared, task);
        }
        if !std::mem::replace(&mut self.batch.looked_out, true) {
            self.look_out(self.batch.ran);
        }
        if self.batch.driver == BUDGET || shared.is_out_of_time() {
            return None;
        }
        let task = self.driver.next_task()?;
        if self.batch.driver == 0 {
            let (now, ran) = (self.batch.now, self.batch.ran);
            self.begin_kind(shared, now, ran, shared.settings.spans.io);
        }
        self.batch.driver += 1;
        if self.pace.step() && self.look(shared) {
            // Time is over: this one is the last.
            self.batch.driver = BUDGET;
        }
        shared.out.driver.store(true, Ordering::Relaxed);
        Some(task)
    }

    /// The next submitted task of this turn.
    fn submitted(&mut self, shared: &Shared) -> Option<Task> {
        if self.batch.spent || shared.is_out_of_time() {
            return None;
        }
        let task = self.pop()?;
        // Looked at before it runs, since that may be elsewhere: it is the last then.
        self.batch.spent = self.pace.step() && self.look(shared);
        Some(task)
    }

    fn pop(&mut self) -> Option<Task> {
        if self.batch.own < BUDGET
            && let Some(task) = local::pop()
        {
            self.batch.own += 1;
            return Some(task);
        }
        if self.batch.lane == BUDGET {
            return None;
        }
        let task = self.end.pop()?;
        self.batch.lane += 1;
        self.end.publish();
        Some(task)
    }

    /// Whether work of this loop is still with other threads. If so, the last of it to end wakes
    /// the loop.
    pub(crate) fn is_out(&mut self, shared: &Shared) -> bool {
        let settled = self.driver.wind_up();
        shared.out.is_any() || !settled
    }

    /// Who is with other threads, as the driver calls them.
    pub(crate) fn absent(&self) -> Vec<String> {
        self.driver.absent()
    }
}

/// Tasks of a loop that were handed out and are not over.
#[derive(Default)]
pub(crate) struct Out {
    count: Mutex<Count>,
    /// The last task handed out was the driver's. Written and read by whoever produces.
    pub(crate) driver: AtomicBool,
}

#[derive(Default)]
struct Count {
    out: usize,
    /// The name of the one handed out last.
    last: &'static str,
    /// The loop waits for the last one.
    awaited: bool,
}

impl Out {
    /// Counts a task that may outlive the turn.
    fn count(&self, shared: &Arc<Shared>, task: Task) -> Task {
        self.driver.store(false, Ordering::Relaxed);
        let (kind, name, long) = (task.blocking(), task.name(), task.is_long());
        let mut count = lock(&self.count);
        count.out += 1;
        count.last = name;
        drop(count);
        let one = OneOut(Arc::clone(shared));
        let run = move || {
            // Whoever runs it, a panic is the loop's to report.
            if let Err(panic) = contain(|| task.run()) {
                report_panic(&one.0, name, panic);
            }
        };
        match kind {
            Blocking::May if long => Task::long(run),
            Blocking::May => Task::named(name, run),
            Blocking::Adapts | Blocking::Never => Task::of(kind, run),
        }
    }

    /// Whether any is out; the last one then wakes the loop.
    fn is_any(&self) -> bool {
        let mut count = lock(&self.count);
        count.awaited = count.out > 0;
        count.awaited
    }

    /// The name of one that is out.
    pub(crate) fn any(&self) -> Option<&'static str> {
        let count = lock(&self.count);
        (count.out > 0).then_some(count.last)
    }
}

/// A task that is out; dropped when it is over, however that comes.
struct OneOut(Arc<Shared>);

impl Drop for OneOut {
    fn drop(&mut self) {
        let mut count = lock(&self.0.out.count);
        count.out -= 1;
        let wake = count.out == 0 && std::mem::take(&mut count.awaited);
        drop(count);
        if wake {
            let waker: &dyn Sleeper = &*self.0.waker;
            waker.wake();
        }
    }
}
