//! How a loop ends: quiet period, hooks, close, what is left, report.
//!
//! Driven by the loop's own turns. Nothing is polled: the loop sleeps until the quiet period
//! would be over or the deadline comes, and a submission in between wakes it and starts the
//! period anew.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::prim::lock;
use tidegate_core::{
    CancelToken, Executor, Parker, ThreadBuilder, Unhandled, as_nanos, check_wait, contain,
    discard_all,
};
use tidegate_pool::{HandedBack, Quiet, ShutdownError};
use tidegate_promise::WaitError;

use crate::core::driver::Driver;
use crate::core::turn::{Core, Turn};
use crate::schedule::scheduled_task as schedule;
use crate::schedule::timeout;
use crate::state::lifecycle::{Lifecycle, Plan, ShutdownReport};
use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::{Shared, Terminated, drop_contained};
use crate::thread::local;

/// What the end of a loop without a thread came to.
enum WithoutThread {
    /// It is over.
    Over,
    /// It has a thread now, which ends it.
    HasOne,
    /// Somebody starts a thread at this moment and goes on with the end.
    Starting,
}

/// How long after the deadline a loop may take to notice it before it counts as stuck.
const GRACE: Duration = Duration::from_millis(500);

/// The loop's side of its own end.
#[derive(Default)]
pub(crate) struct Winding {
    begun: Option<Begun>,
    /// Why the loop ends otherwise than asked.
    failed: Option<ShutdownError>,
    over: bool,
}

struct Begun {
    /// Tasks that had been started when the end began.
    started: u64,
    /// The last moment at which something ran.
    last_work: u64,
    report: ShutdownReport,
}

impl Winding {
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Hooks run so far.
    pub(crate) fn hooks(&self) -> u64 {
        self.begun.as_ref().map_or(0, |begun| begun.report.hooks)
    }

    /// Ends the loop where it stands: it can run no more turns. `why` gets what was left.
    pub(crate) fn abandon<D: Driver>(
        &mut self,
        core: &mut Core<D>,
        shared: &Arc<Shared>,
        why: impl FnOnce(HandedBack) -> ShutdownError,
    ) {
        let now = shared.clock.nanos();
        self.begin(shared, now);
        let past = Plan {
            quiet: 0,
            deadline: 0,
            started: 0,
        };
        self.close(core, shared, past);
        self.failed = Some(why(shared.handed_back()));
    }

    fn begin(&mut self, shared: &Shared, now: u64) -> &mut Begun {
        self.begun.get_or_insert_with(|| Begun {
            started: lock(&shared.plan)
                .map_or_else(|| shared.running.started(), |plan| plan.started),
            last_work: now,
            report: ShutdownReport::default(),
        })
    }

    /// What comes after a turn of a loop that was asked to end; true when it is over.
    pub(crate) fn step<D: Driver>(
        &mut self,
        core: &mut Core<D>,
        shared: &Arc<Shared>,
        turn: Turn,
    ) -> bool {
        let closed = shared.state.get() >= Lifecycle::Shutdown;
        let now = shared.clock.nanos();
        let plan = lock(&shared.plan).unwrap_or(Plan {
            quiet: 0,
            deadline: now,
            started: shared.running.started(),
        });
        let begun = self.begin(shared, now);
        begun.report.cancelled += cancel_timers(shared);
        if turn == Turn::Busy {
            begun.last_work = now;
        }
        if now < plan.deadline && !closed {
            if turn == Turn::Busy || core.has_claims() || !shared.signals.is_empty() {
                return false;
            }
            if run_hooks(shared, &mut begun.report, plan.deadline) {
                begun.last_work = shared.clock.nanos();
                return false;
            }
            let quiet_at = begun.last_work.saturating_add(plan.quiet);
            if now < quiet_at {
                core.sleep_until(shared, quiet_at.min(plan.deadline));
                return false;
            }
        }
        if core.is_out(shared) {
            if now < plan.deadline {
                core.sleep_until(shared, plan.deadline);
                return false;
            }
            self.failed = Some(stuck(shared, core.absent()));
        }
        self.close(core, shared, plan);
        true
    }

    /// Closes the lanes and deals with what is left.
    fn close<D: Driver>(&mut self, core: &mut Core<D>, shared: &Arc<Shared>, plan: Plan) {
        shared.state.raise(Lifecycle::Shutdown);
        shared.lane.close();
        while shared.clock.nanos() < plan.deadline
            && (core.turn_again(shared) == Turn::Busy || core.has_claims())
        {}
        core.close_driver(shared);
        let Some(begun) = &mut self.begun else { return };
        let report = &mut begun.report;
        run_hooks(shared, report, plan.deadline);
        report.cancelled += cancel_timers(shared);
        report.dropped += drop_futures(shared);
        shared.counters.place.set(IN_SIGNALS);
        for signal in shared.signals.close() {
            let _ = contain(|| signal.deliver());
        }
        report.cancelled += cancel_timers(shared);
        report.dropped += drop_futures(shared);
        let own = local::close();
        let left = core.end().drain();
        report.ran = shared.running.started() - begun.started;
        report.handed_back = shared.handed_back();
        report.handed_back.add(own);
        report.handed_back.add(left);
        // Hooks for which there was no time: what they captured, maybe this loop, goes.
        let late = std::mem::take(&mut *lock(&shared.hooks));
        discard_all(late);
        self.over = true;
    }

    /// Leaves the report for [`announce`].
    pub(crate) fn finish(&mut self, shared: &Shared) {
        let report = self.begun.take().map(|begun| begun.report);
        let how = match self.failed.take() {
            Some(why) => Err(why),
            None => Ok(report.unwrap_or_default()),
        };
        *lock(&shared.last_report) = Some(how);
    }
}

/// Says that the loop is over. The last thing that its thread does.
pub(crate) fn announce(shared: &Shared) {
    let how = lock(&shared.last_report).take();
    shared.terminate(how.unwrap_or_else(|| Ok(ShutdownReport::default())));
}

fn cancel_timers(shared: &Shared) -> u64 {
    shared.counters.place.set(IN_DROPS);
    let (timers, timeouts) =
        local::with(|local| (local.kept.timers.drain(), local.kept.timeouts.drain()))
            .unwrap_or_default();
    for timer in &timers {
        schedule::expire(shared, timer);
    }
    for timeout in &timeouts {
        timeout::end(shared, timeout);
    }
    shared.counters.place.set(0);
    (timers.len() + timeouts.len()) as u64
}

fn drop_futures(shared: &Shared) -> u64 {
    let (sent, pinned) =
        local::with(|local| (local.kept.futures.drain(), local.pinned.drain())).unwrap_or_default();
    let count = (sent.len() + pinned.len()) as u64;
    shared.counters.place.set(IN_DROPS);
    for future in sent {
        drop_contained(shared, future);
    }
    for future in pinned {
        drop_contained(shared, future);
    }
    shared.counters.place.set(0);
    count
}

/// Runs shutdown hooks, oldest first, until none is left; hooks may add hooks, which run too
/// unless the deadline has passed. True if any ran.
fn run_hooks(shared: &Shared, report: &mut ShutdownReport, deadline: u64) -> bool {
    let before = report.hooks;
    let mut due = lock(&shared.hooks).len();
    while due > 0 || shared.clock.nanos() < deadline {
        let hook = {
            let mut hooks = lock(&shared.hooks);
            if hooks.is_empty() {
                break;
            }
            hooks.remove(0)
        };
        due = due.saturating_sub(1);
        report.hooks += 1;
        *lock(&shared.in_hook) = Some(hook.name);
        if let Err(panic) = contain(hook.run) {
            let message = panic.message();
            shared.unhandled(&Unhandled::HookPanic { message });
        }
        *lock(&shared.in_hook) = None;
    }
    report.hooks > before
}

impl Shared {
    /// Asks the loop to end as `quiet` says; a second call can only make it stricter.
    pub(crate) fn shut_down(&self, quiet: Quiet) -> Terminated {
        if self.endless.load(Ordering::Relaxed) {
            return self.termination();
        }
        if quiet.period > quiet.timeout {
            return failed(ShutdownError::BadQuiet(quiet));
        }
        let asked = Plan {
            quiet: as_nanos(quiet.period),
            deadline: self.clock.deadline(quiet.timeout),
            started: self.running.started(),
        };
        {
            let mut plan = lock(&self.plan);
            *plan = Some(plan.map_or(asked, |plan| plan.stricter(asked)));
        }
        self.go_on_ending();
        self.termination()
    }

    /// Ends the loop as its plan says: on the spot, by its thread, or by whoever starts it now.
    pub(crate) fn go_on_ending(&self) {
        loop {
            let before = self.state.get();
            if before >= Lifecycle::ShuttingDown {
                if let Some(reaper) = &*lock(&self.reaper) {
                    reaper.unpark();
                }
                break;
            }
            if self.state.needs_thread() {
                match self.end_without_thread() {
                    WithoutThread::Over | WithoutThread::Starting => return,
                    WithoutThread::HasOne => {}
                }
            } else if self.state.advance(before, Lifecycle::ShuttingDown) {
                self.watch_end();
                break;
            }
        }
        // Whether it sleeps or not: it has to look at its state.
        let _ = self.bell.ring();
        self.wake();
    }

    /// Whether the loop was asked to end and its deadline has passed: what has not started by
    /// then does not start. Asked after each task, so a loop that lives on pays one look.
    #[inline]
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.state.get() >= Lifecycle::ShuttingDown && self.is_past_deadline()
    }

    #[cold]
    fn is_past_deadline(&self) -> bool {
        let plan = *lock(&self.plan);
        plan.is_some_and(|plan| self.clock.nanos() >= plan.deadline)
    }

    /// Ends a loop that has no thread and nothing to run, on the spot. One that has something to
    /// run gets a thread.
    fn end_without_thread(&self) -> WithoutThread {
        let mut slot = self.thread_slot();
        if !self.state.needs_thread() {
            return WithoutThread::HasOne;
        }
        if let Some(starting) = &mut slot.starting {
            starting.end_asked = true;
            return WithoutThread::Starting;
        }
        let is_idle =
            || lock(&self.hooks).is_empty() && self.lane.is_empty() && self.signals.is_empty();
        if is_idle() {
            // Closed first, then looked at again: what slipped in was accepted and gets a thread.
            self.lane.close();
        }
        let idle = is_idle();
        if !idle {
            drop(slot);
            if self.start().is_ok() {
                return WithoutThread::HasOne;
            }
            slot = self.thread_slot();
            if !self.state.needs_thread() || slot.starting.is_some() {
                return WithoutThread::HasOne;
            }
        }
        // While the lock is held nobody can start a thread.
        self.lane.close();
        self.state.raise(Lifecycle::Shutdown);
        drop(slot);
        drop(self.signals.close());
        let handed_back = self.handed_back();
        // A submitter may have slipped in; its task is handed back, not lost.
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

    /// Waits for the end, by the loop's own clock, until `token` is tripped.
    pub(crate) fn await_termination(
        &self,
        timeout: Duration,
        token: Option<&CancelToken>,
    ) -> Result<bool, WaitError<ShutdownError>> {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Err(WaitError::Interrupted);
        }
        let done = self.termination();
        if done.is_done() {
            return Ok(!self.endless.load(Ordering::Relaxed));
        }
        let _recorded = check_wait(Some(self)).map_err(WaitError::Refused)?;
        let parker = Parker::new();
        let woken = parker.clone();
        let _listening = done.listen(move |_| woken.unpark());
        let _hook = token.map(|token| token.unpark_on_cancel(&parker));
        let deadline = self.clock.deadline(timeout);
        while !done.is_done() && self.clock.nanos() < deadline {
            if token.is_some_and(CancelToken::is_cancelled) {
                return Err(WaitError::Interrupted);
            }
            self.clock.park_until(&parker, Some(deadline));
        }
        Ok(done.is_done())
    }

    /// Starts the thread that reports a loop which does not end in time.
    fn watch_end(&self) {
        let parker = Parker::new();
        *lock(&self.reaper) = Some(parker.clone());
        let shared = self.arc();
        let done = parker.clone();
        self.termination().on_complete(move |_| done.unpark());
        // Without that thread a stuck loop is not reported; everything else works.
        let _ = ThreadBuilder::new("tidegate-end").spawn(move || reap(&shared, &parker));
    }
}

fn reap(shared: &Shared, parker: &Parker) {
    let terminated = shared.termination();
    loop {
        if terminated.is_done() {
            return;
        }
        let plan = *lock(&shared.plan);
        let deadline = plan
            .map_or(0, |plan| plan.deadline)
            .saturating_add(as_nanos(GRACE));
        let now = shared.clock.nanos();
        if now >= deadline {
            break;
        }
        shared.clock.park_until(parker, Some(deadline));
    }
    shared.state.raise(Lifecycle::Shutdown);
    shared.lane.close();
    shared.report(Err(stuck(shared, Vec::new())));
    shared.left.give_up(shared.id);
}

/// A loop whose time is over and that something holds.
fn stuck(shared: &Shared, cut: Vec<String>) -> ShutdownError {
    let now = shared.clock.nanos();
    let age = now.saturating_sub(shared.counters.heartbeat.get());
    let task = match cut.is_empty() {
        true => shared
            .out
            .any()
            .map_or_else(|| held_by(shared), Cow::Borrowed),
        false => Cow::Borrowed("a handler"),
    };
    ShutdownError::Stuck {
        name: shared.name.clone(),
        task,
        age: Duration::from_nanos(age),
        behind: shared.pending(),
        cut,
        handed_back: shared.handed_back(),
    }
}

/// What the loop's thread is in.
fn held_by(shared: &Shared) -> Cow<'static, str> {
    if let Some(name) = &*lock(&shared.in_hook) {
        return Cow::Owned(format!("shutdown hook {name}"));
    }
    let running = shared.running.now().map(|task| task.name);
    let held_by = running.unwrap_or_else(|| match shared.counters.place.get() {
        _ if shared.counters.since.get() == 0 => "the start of its thread",
        IN_SIGNALS => "a listener or a future",
        IN_DROPS => "the drop of a timer or a future",
        _ => "the driver",
    });
    Cow::Borrowed(held_by)
}

/// A termination that has failed already.
pub(crate) fn failed(why: ShutdownError) -> Terminated {
    let failed = tidegate_promise::Completion::failed(why);
    failed
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}
