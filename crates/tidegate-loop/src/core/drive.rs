//! The ways to drive an event loop: by a thread of its own, by a caller of `block_on`, by hand, and
//! by a strategy.

use std::sync::Arc;

use tidegate_core::Task;
use tidegate_core::internal::contain;
use tidegate_pool::{HandedBack, ShutdownError};

use super::driver::Driver;
use super::loop_core::{Core, Turn};
use crate::spawn::slots::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Drive, Produced, RootFuture, Shared};
use crate::thread::enter::EnteredLoop;
use crate::thread::local;

impl<D: Driver> Drive for Core<D> {
    fn drive(mut self: Box<Self>, shared: &Arc<Shared>) -> Option<Box<dyn Drive>> {
        self.drive_entered(shared, LocalFutures::default(), &mut |core| {
            while !core.step(shared) {}
        });
        if self.progress.is_over() {
            self.finish(shared);
            return None;
        }
        Some(self)
    }

    fn drive_root(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        root: &mut dyn RootFuture,
    ) {
        self.manual = false;
        self.has_root = true;
        self.drive_entered(shared, std::mem::take(pinned), &mut |core| {
            while !core.root_step(shared, root) {}
            root.end();
        });
        self.finish(shared);
    }

    fn dissolve(mut self: Box<Self>) -> Vec<Task> {
        self.task_receiver.drain()
    }

    fn manual_turn(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) -> bool {
        let hooks = self.progress.hooks();
        let mut busy = false;
        self.manual(shared, pinned, &mut |core| {
            let turn = core.turn(shared);
            if shared.state.get() >= Lifecycle::ShuttingDown {
                core.wind_down(shared, turn);
            }
            local::give_back_spare();
            core.task_receiver.publish();
            busy = turn != Turn::Idle;
        });
        let moved = self.progress.hooks() > hooks || self.progress.is_over();
        if self.progress.is_over() {
            self.finish(shared);
        }
        busy || moved
    }

    fn manual_run(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(),
    ) {
        self.manual(shared, pinned, &mut |_| work());
    }

    fn abandon(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        why: &dyn Fn(HandedBack) -> ShutdownError,
    ) {
        self.manual(shared, pinned, &mut |core| core.give_up(shared, why));
        self.finish(shared);
    }

    fn begin_producing(&mut self, shared: &Arc<Shared>, manual: bool) {
        self.manual = manual;
        self.begin_driving(shared);
    }

    fn produce(&mut self, shared: &Arc<Shared>) -> Produced {
        self.produce_entered(shared)
    }

    fn backlog(&self) -> usize {
        self.driver.backlog()
    }
}

impl<D: Driver> Core<D> {
    /// Runs `steps`, the turns of the event loop, with the calling thread as its thread.
    fn drive_entered(
        &mut self,
        shared: &Arc<Shared>,
        pinned: LocalFutures,
        steps: &mut dyn FnMut(&mut Self),
    ) {
        let entered = EnteredLoop::new(shared, &mut self.loop_state, pinned);
        self.driver.enter();
        self.begin_driving(shared);
        let driven = contain(|| steps(self));
        if let Err(panic) = driven {
            self.give_up(shared, &|handed_back| ShutdownError::Panicked {
                message: panic.message().to_owned(),
                handed_back,
            });
        }
        let busy = shared.clock.nanos().saturating_sub(self.awake_since);
        shared.meter.counters.awake_since.set(0);
        shared.meter.counters.busy.add(busy);
        self.driver.leave();
        self.loop_state = Some(entered.leave().loop_state);
    }

    /// Polls `root` if it was woken, then runs one turn and what follows it. Returns `true` if the
    /// event loop has ended.
    ///
    /// The root is polled before a turn, so that the turn runs what the root started. A root that
    /// the turn woke is polled before the event loop sleeps.
    fn root_step(&mut self, shared: &Arc<Shared>, root: &mut dyn RootFuture) -> bool {
        root.poll_if_woken();
        let turn = self.turn(shared);
        if !root.is_woken() {
            return self.after_turn(shared, turn);
        }
        // A shutdown goes on even if the root wakes itself in every turn.
        shared.state.get() >= Lifecycle::ShuttingDown && self.wind_down(shared, Turn::Busy)
    }

    /// Runs one turn and what follows it. Returns `true` if the thread is done.
    fn step(&mut self, shared: &Arc<Shared>) -> bool {
        let turn = self.turn(shared);
        self.after_turn(shared, turn)
    }

    /// Runs `work` with the calling thread as the event loop's thread.
    fn manual(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(&mut Self),
    ) {
        self.manual = true;
        let entered = EnteredLoop::new(shared, &mut self.loop_state, std::mem::take(pinned));
        self.driver.enter();
        let worked = contain(|| work(self));
        self.driver.leave();
        let left = entered.leave();
        self.loop_state = Some(left.loop_state);
        *pinned = left.pinned;
        if let Err(panic) = worked {
            panic.resume();
        }
    }
}
