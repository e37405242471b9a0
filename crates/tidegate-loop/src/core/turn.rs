//! What a loop owns, and one turn of it.
//!
//! [`Core`] is one value; a thread only drives it. A turn looks once at everything: signals,
//! timers that are due, the loop's own tasks, the lane, the driver's tasks; each with a budget,
//! by number and by time, so that none starves the others. The clock is read once a turn, once for
//! each kind of work that follows another, and every [`LOOK`] tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::prim::spin_loop;
use tidegate_core::{Task, TaskLaneEnd, ThreadWatch, begin_turn, contain};
use tidegate_pool::{HandedBack, ShutdownError};

use super::budget::Pace;
use super::hand_out::{self, Produced};
use crate::core::driver::Driver;
use crate::core::patience::Patience;
use crate::core::run_task::{report_panic, run_task};
use crate::shutdown::steps::Winding;
use crate::spawn::future::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::IN_SIGNALS;
use crate::state::shared::Shared;
use crate::thread::local::{self, Entered, Kept};

/// Tasks between two looks at the clock.
pub(super) const LOOK: u32 = 64;
/// Tasks of one kind in one turn.
pub(super) const BUDGET: usize = 256;
/// Tasks in a row after which producers count as dense.
const DENSE: usize = 16;
/// Tasks after a refusal for which producers are told more often how far the loop has come.
const PRESSED: u32 = 1024;
/// How often they are told then.
const STEP: u32 = 16;
/// Nanoseconds before a timer in which the loop does not look on, so as not to be late.
const SOON: u64 = 100_000;

/// Something that can be driven by a thread: a [`Core`] of whichever driver.
pub(crate) trait Drive: Send {
    /// Drives until the loop ends, or gives its thread back; then answers itself.
    fn drive(self: Box<Self>, shared: &Arc<Shared>) -> Option<Box<dyn Drive>>;
    /// Takes out the tasks of a loop that ends without ever running again.
    fn dissolve(self: Box<Self>) -> Vec<Task>;
    /// Runs what is there to run now, without waiting; true if anything ran. `pinned` are the
    /// futures that the caller keeps for the loop between two turns.
    fn turn_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) -> bool;
    /// Runs `work` as the loop.
    fn run_by_hand(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(),
    );
    /// Ends a loop that nobody will turn again.
    fn abandon_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures);
    /// A strategy begins to drive it; `by_hand` says that it must never wait.
    fn begin_producing(&mut self, shared: &Arc<Shared>, by_hand: bool);
    /// The next task for a strategy to have run; waits for one.
    fn produce(&mut self, shared: &Arc<Shared>) -> Produced;
    /// How many more could be had at once, as far as is known.
    fn backlog(&self) -> usize;
}

/// What a loop owns.
pub(crate) struct Core<D: Driver> {
    pub(super) driver: D,
    pub(super) end: TaskLaneEnd,
    /// On the loop's thread this lies in a thread-local; here between two threads.
    pub(super) kept: Option<Box<Kept>>,
    pub(super) winding: Winding,
    /// The state that the last turn saw; a change of it keeps the loop from falling asleep.
    pub(super) seen: Lifecycle,
    pub(super) thread: Option<ThreadWatch>,
    /// Somebody turns it by hand: it never sleeps.
    pub(super) by_hand: bool,
    pub(super) patience: Patience,
    /// Tasks for which the loop publishes every [`STEP`] tasks, because a producer was refused.
    pub(super) pressed: u32,
    /// The last busy turn was followed by a look in vain: no need for another before sleeping.
    pub(super) looked: bool,
    /// Turns with other work since the driver was last asked.
    pub(super) unlooked: u32,
    /// The next turn looks how much waits: after a sleep, and when there was more than a turn
    /// could take. Not each time, since that takes the producers' line away from them.
    pub(super) measure: bool,
    /// When this thread woke up or began.
    pub(super) awake_since: u64,
    /// The same, if no turn has begun since then.
    pub(super) woke: Option<u64>,
    /// The last moment at which something ran.
    pub(super) last_work: u64,
    /// Where a turn stands whose tasks a strategy has run.
    pub(super) batch: hand_out::Batch,
    pub(super) pace: Pace,
}

/// What a turn came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something ran; look again.
    Busy,
    /// Nothing was there.
    Idle,
}

impl<D: Driver> Core<D> {
    pub(crate) fn new(driver: D, end: TaskLaneEnd) -> Self {
        Self {
            driver,
            end,
            kept: Some(Box::default()),
            winding: Winding::default(),
            seen: Lifecycle::Started,
            thread: None,
            by_hand: false,
            patience: Patience::new(),
            pressed: 0,
            looked: false,
            unlooked: 0,
            measure: true,
            awake_since: 0,
            woke: None,
            last_work: 0,
            batch: hand_out::Batch::default(),
            pace: Pace::new(),
        }
    }

    /// One look at everything.
    fn turn(&mut self, shared: &Arc<Shared>) -> Turn {
        let now = self.begin(shared);
        let mut ran = self.run_signals(shared);
        ran |= self.run_due(shared, now);
        ran |= self.run_own(shared);
        ran |= self.run_lane(shared);
        self.look_out(ran);
        ran |= self.run_driver(shared, now, ran);
        if ran {
            shared.running.idle();
            self.last_work = now;
            Turn::Busy
        } else {
            Turn::Idle
        }
    }

    pub(super) fn begin(&mut self, shared: &Shared) -> u64 {
        let now = self.woke.take().unwrap_or_else(|| shared.clock.nanos());
        begin_turn(now);
        let counters = &shared.counters;
        counters.turns.add(1);
        counters.heartbeat.set(now.max(1));
        if std::mem::take(&mut self.measure) || self.by_hand {
            counters.high_water.raise_to(shared.pending() as u64);
        }
        local::with(|local| {
            counters.high_water.raise_to(local.kept.tasks.len() as u64);
            counters.timers.set(local.kept.timers_len() as u64);
            let futures = local.kept.futures.len() + local.pinned.len();
            counters.futures.set(futures as u64);
        });
        now
    }

    pub(super) fn run_signals(&mut self, shared: &Shared) -> bool {
        let mut any = false;
        // Looked at first: it lies on a line that producers read, and is hardly ever set.
        if shared.silent.load(Ordering::Relaxed) != 0 {
            shared.silent.store(0, Ordering::Relaxed);
        }
        for signal in shared.signals.take() {
            if !any {
                shared.counters.place.set(IN_SIGNALS);
                any = true;
            }
            // Listeners and futures contain their own panics; this is the last resort.
            let delivered = contain(|| signal.deliver());
            if let Err(panic) = delivered {
                report_panic(shared, "a signal", panic);
            }
        }
        if any {
            shared.counters.place.set(0);
        }
        any
    }

    fn run_own(&mut self, shared: &Shared) -> bool {
        let mut runs = 0;
        while runs < BUDGET && !shared.is_out_of_time() {
            let Some(task) = local::pop() else { break };
            run_task(shared, task);
            runs += 1;
            if self.pace.step() && self.look(shared) {
                break;
            }
        }
        runs > 0
    }

    fn run_lane(&mut self, shared: &Shared) -> bool {
        let mut runs = 0;
        let mut since_pause = 0;
        let told_at = &shared.counters.told_at;
        told_at.set(shared.running.started() + 1);
        while runs < BUDGET && !shared.is_out_of_time() {
            let Some(task) = self.end.pop() else {
                let dense = since_pause >= DENSE || self.patience.is_at_heels();
                let end = &mut self.end;
                if dense && shared.settings.spin && self.patience.hang_back(|| end.is_ready()) {
                    since_pause = 0;
                    continue;
                }
                break;
            };
            run_task(shared, task);
            runs += 1;
            since_pause += 1;
            if self.end.is_wanted() {
                local::give_back_spare();
                self.pressed = PRESSED;
                self.end.publish();
                told_at.set(shared.running.started() + 1);
            } else if self.pressed > 0 {
                self.pressed -= 1;
                if self.pressed.is_multiple_of(STEP) {
                    self.end.publish();
                    told_at.set(shared.running.started() + 1);
                }
            }
            if self.pace.step() && self.look(shared) {
                break;
            }
        }
        if runs > 0 {
            self.end.publish();
        }
        // A batch behind its first task waited; more than a batch is worth a look.
        shared
            .counters
            .high_water
            .raise_to(runs.saturating_sub(1) as u64);
        self.measure |= runs == BUDGET;
        told_at.set(0);
        runs > 0
    }

    /// Lets the driver look after every second turn with other work: what an event caused runs
    /// in the next turn, and a loop with nothing else to do then waits on its driver anyway.
    pub(super) fn look_out(&mut self, ran: bool) {
        self.unlooked += u32::from(ran);
        if self.unlooked >= 2 || self.by_hand {
            self.unlooked = 0;
            self.driver.look();
        }
    }

    fn run_driver(&mut self, shared: &Shared, now: u64, ran: bool) -> bool {
        let mut runs = 0;
        while runs < BUDGET && !shared.is_out_of_time() {
            let most = if shared.settings.time_tasks {
                1
            } else {
                self.pace.left(runs == 0).min(BUDGET - runs)
            };
            let Some((task, several)) = self.driver.next_tasks(most) else {
                break;
            };
            if runs == 0 {
                self.begin_kind(shared, now, ran, shared.settings.spans.io);
            }
            run_task(shared, task);
            let several = several.max(1);
            runs += several;
            if self.pace.steps(several) && self.look(shared) {
                break;
            }
        }
        runs > 0
    }

    /// Whether the next turn would find something, as far as that shows without a look at the
    /// producers' line.
    fn has_more(&mut self, shared: &Shared) -> bool {
        let own = local::with(|local| !local.kept.tasks.is_empty());
        own == Some(true) || self.end.is_ready() || !shared.signals.is_empty()
    }

    /// Whether something came while nobody looked.
    fn has_work(&self, shared: &Shared) -> bool {
        !self.end.is_empty() || !shared.signals.is_empty()
    }

    /// Looks on for a while, then sleeps until `deadline` or until woken.
    fn sleep(&mut self, shared: &Shared, deadline: Option<u64>) {
        local::give_back_spare();
        self.end.publish();
        if !std::mem::take(&mut self.looked) && self.look_on(shared) {
            return;
        }
        shared.bell.arm(deadline.unwrap_or(u64::MAX));
        if self.has_work(shared) || shared.state.get() != self.seen {
            shared.bell.disarm();
            // Claimed and not written yet, maybe: a moment for the one who writes.
            spin_loop();
            return;
        }
        let counters = &shared.counters;
        counters.sleeps.add(1);
        let now = shared.clock.nanos();
        counters.awake_since.set(0);
        counters.busy.add(now.saturating_sub(self.awake_since));
        if let Some(thread) = &self.thread {
            thread.set_waiting(true);
        }
        self.driver.wait(&shared.clock, deadline);
        self.unlooked = 0;
        shared.bell.disarm();
        self.measure = true;
        if let Some(thread) = &self.thread {
            thread.set_waiting(false);
        }
        self.awake_since = shared.clock.nanos();
        self.woke = Some(self.awake_since);
        shared.counters.awake_since.set(self.awake_since.max(1));
    }

    /// Looks on for a while, unless a timer is due soon; true if something came.
    fn look_on(&mut self, shared: &Shared) -> bool {
        if !D::LOOKS_ON || !shared.settings.spin {
            return false;
        }
        let due = local::with(|local| local.kept.next_deadline()).flatten();
        if due.is_some_and(|due| due < self.last_work.saturating_add(SOON)) {
            return false;
        }
        let end = &mut self.end;
        let mut ready = || end.is_ready() || !shared.signals.is_empty();
        self.patience.look_on(&mut ready)
    }

    /// One turn, then whatever the loop's life asks for; true when the thread is done.
    fn step(&mut self, shared: &Arc<Shared>) -> bool {
        let turn = self.turn(shared);
        self.after_turn(shared, turn)
    }

    pub(super) fn after_turn(&mut self, shared: &Arc<Shared>, turn: Turn) -> bool {
        let state = shared.state.get();
        self.seen = state;
        if state >= Lifecycle::ShuttingDown {
            return self.wind_down(shared, turn);
        }
        if turn == Turn::Busy {
            let more = self.has_more(shared);
            self.looked = !more && !self.look_on(shared);
            if D::LOOKS_ON || more {
                return false;
            }
        }
        if self.may_leave(shared, state) {
            return true;
        }
        let deadline = local::with(|local| local.kept.next_deadline()).flatten();
        let deadline = self.idle_deadline(shared, deadline);
        self.sleep(shared, deadline);
        false
    }

    /// When an idle loop that gives its thread back has to look again.
    fn idle_deadline(&self, shared: &Shared, deadline: Option<u64>) -> Option<u64> {
        match shared.settings.idle_stop {
            0 => deadline,
            idle => {
                let leave = self.last_work.saturating_add(idle);
                // Past it the loop stays because of a timer or a future: work then moves it on.
                let leave = Some(leave).filter(|&leave| leave > shared.clock.nanos());
                leave.into_iter().chain(deadline).min()
            }
        }
    }

    /// Gives the thread back if the loop was asked to, or has been idle for long, and nothing
    /// is left to do.
    fn may_leave(&mut self, shared: &Shared, state: Lifecycle) -> bool {
        let idle = shared.settings.idle_stop;
        let asked = state == Lifecycle::Suspending;
        let bored = idle > 0 && shared.clock.nanos() >= self.last_work.saturating_add(idle);
        if !asked && !bored {
            return false;
        }
        let free = local::with(|local| {
            let timers = local.kept.timers_len() as u64;
            shared.counters.timers.set(timers);
            local.kept.is_idle() && local.pinned.is_empty()
        });
        if free != Some(true) || !self.driver.is_idle() || self.has_work(shared) {
            return false;
        }
        local::give_back_spare();
        self.end.publish();
        true
    }
}

impl<D: Driver> Core<D> {
    pub(crate) fn wind_down(&mut self, shared: &Arc<Shared>, turn: Turn) -> bool {
        let mut winding = std::mem::take(&mut self.winding);
        let done = winding.step(self, shared, turn);
        self.winding = winding;
        done
    }

    /// Lets the driver let go; its panic is nobody's but the driver's.
    pub(crate) fn close_driver(&mut self, shared: &Shared) {
        let closed = contain(|| self.driver.close());
        if let Err(panic) = closed {
            report_panic(shared, "the driver's end", panic);
        }
    }

    /// Whether tasks were claimed and not taken. A moment, too, for who may still be writing one.
    pub(crate) fn has_claims(&self) -> bool {
        spin_loop();
        !self.end.is_empty()
    }

    pub(crate) fn end(&mut self) -> &mut TaskLaneEnd {
        &mut self.end
    }

    /// Runs everything that is there, once: for a loop on its way out.
    pub(crate) fn turn_again(&mut self, shared: &Arc<Shared>) -> Turn {
        self.turn(shared)
    }

    pub(crate) fn sleep_until(&mut self, shared: &Shared, deadline: u64) {
        if !self.by_hand {
            self.sleep(shared, Some(deadline));
        }
    }

    /// Ends the loop where it stands, because of `why`.
    pub(super) fn abandon(
        &mut self,
        shared: &Arc<Shared>,
        why: impl FnOnce(HandedBack) -> ShutdownError,
    ) {
        let mut winding = std::mem::take(&mut self.winding);
        if !winding.is_over() {
            winding.abandon(self, shared, why);
        }
        self.winding = winding;
    }

    /// Notes that the loop is driven from now on.
    fn begin_driving(&mut self, shared: &Shared) {
        shared.bell.disarm();
        self.thread = shared.thread();
        self.awake_since = shared.clock.nanos();
        self.woke = None;
        self.last_work = self.awake_since;
        if shared.counters.since.get() == 0 {
            shared.counters.since.set(self.awake_since.max(1));
        }
        shared.counters.awake_since.set(self.awake_since.max(1));
    }

    /// Does `work` with this thread being the loop's.
    pub(super) fn by_hand<R>(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.by_hand = true;
        let entered = Entered::new(shared, &mut self.kept, std::mem::take(pinned));
        self.driver.enter();
        let worked = contain(|| work(self));
        self.driver.leave();
        let left = entered.leave();
        self.kept = Some(left.kept);
        *pinned = left.pinned;
        worked.unwrap_or_else(|panic| panic.resume())
    }
}

impl<D: Driver> Drive for Core<D> {
    fn drive(mut self: Box<Self>, shared: &Arc<Shared>) -> Option<Box<dyn Drive>> {
        let entered = Entered::new(shared, &mut self.kept, LocalFutures::default());
        self.driver.enter();
        self.begin_driving(shared);
        let driven = contain(|| while !self.step(shared) {});
        if let Err(panic) = driven {
            let message = panic.message().to_owned();
            self.abandon(shared, |handed_back| ShutdownError::Panicked {
                message,
                handed_back,
            });
        }
        let busy = shared.clock.nanos().saturating_sub(self.awake_since);
        shared.counters.awake_since.set(0);
        shared.counters.busy.add(busy);
        self.driver.leave();
        self.kept = Some(entered.leave().kept);
        if self.winding.is_over() {
            self.winding.finish(shared);
            return None;
        }
        Some(self)
    }

    fn dissolve(mut self: Box<Self>) -> Vec<Task> {
        self.end.drain()
    }

    fn turn_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) -> bool {
        let hooks = self.winding.hooks();
        let turn = self.by_hand(shared, pinned, |core| {
            let turn = core.turn(shared);
            if shared.state.get() >= Lifecycle::ShuttingDown {
                core.wind_down(shared, turn);
            }
            local::give_back_spare();
            core.end.publish();
            turn
        });
        let moved = self.winding.hooks() > hooks || self.winding.is_over();
        if self.winding.is_over() {
            self.winding.finish(shared);
        }
        turn == Turn::Busy || moved
    }

    fn run_by_hand(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(),
    ) {
        self.by_hand(shared, pinned, |_| work());
    }

    fn abandon_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) {
        self.by_hand(shared, pinned, |core| {
            core.abandon(shared, |handed_back| ShutdownError::HandDropped {
                handed_back,
            });
        });
        self.winding.finish(shared);
    }

    fn begin_producing(&mut self, shared: &Arc<Shared>, by_hand: bool) {
        self.by_hand = by_hand;
        self.begin_driving(shared);
    }

    fn produce(&mut self, shared: &Arc<Shared>) -> Produced {
        self.produce_entered(shared)
    }

    fn backlog(&self) -> usize {
        self.driver.backlog()
    }
}
