//! Our own contestants: the event loop, the promise, the blocking wait.
//!
//! The RATIO lines of a table compare the first row with `Role::Ours`; the other rows of ours are
//! for information.

use std::time::{Duration, Instant};

use tidegate_loop::{EventLoop, Quiet, RejectPolicy};
use tidegate_promise::{Completion, Promise, promise};

use crate::contest::{Limit, LoopContestant, PromiseContestant, WaitContestant, observe};
use crate::handoff::{Lineup, OUTSTANDING};
use crate::promise as suite;
use crate::report::Role;
use crate::rounds::Entry;

/// An event loop with the bound that the suite requests. A producer that finds it full backs off
/// for a moment, as the loop's own policy does, so that the loop has the processor to itself.
struct Tidegate(EventLoop);

/// How long a rejected producer waits before it tries again.
const PAUSE: Duration = Duration::from_micros(50);

impl LoopContestant for Tidegate {
    fn start(name: &str, limit: Limit) -> Self {
        let bound = match limit {
            Limit::Own(bound) | Limit::Window(bound) => bound,
            Limit::Unbounded => 4_000_000,
        };
        let back_off = RejectPolicy::Backoff {
            attempts: u32::MAX,
            pause: PAUSE,
        };
        let home = EventLoop::builder(name).bound(bound).reject(back_off);
        let home = home.build().expect("the description is sound");
        let started = home.submit(|| ()).expect("a new loop has room");
        started.wait().expect("a thread can be had");
        Self(home)
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.execute(task).expect("the loop is open");
    }

    fn wakeups(&self) -> Option<u64> {
        Some(self.0.metrics().wakeups)
    }

    fn stop(self) {
        let end = self.0.shutdown(Quiet::none(Duration::from_secs(10)));
        end.wait().expect("every task has run");
    }
}

/// A promise whose completion is dropped after listening, as in most code.
struct Finally;

impl PromiseContestant for Finally {
    type Pending = (Promise<u64>, Option<Completion<u64>>);

    #[inline]
    fn create() -> Self::Pending {
        let (promise, completion) = promise();
        (promise, Some(completion))
    }

    #[inline]
    fn listen(pending: &mut Self::Pending) {
        if let Some(completion) = pending.1.take() {
            completion.finally(|outcome| observe(outcome.success().copied().unwrap_or(0)));
        }
    }

    #[inline]
    fn complete(pending: Self::Pending, value: u64) {
        let _ = pending.0.succeed(value);
    }
}

/// A promise whose completion is kept after listening.
struct OnComplete;

impl PromiseContestant for OnComplete {
    type Pending = (Promise<u64>, Completion<u64>);

    #[inline]
    fn create() -> Self::Pending {
        promise()
    }

    #[inline]
    fn listen(pending: &mut Self::Pending) {
        pending
            .1
            .on_complete(|outcome| observe(outcome.success().copied().unwrap_or(0)));
    }

    #[inline]
    fn complete(pending: Self::Pending, value: u64) {
        let _ = pending.0.succeed(value);
    }
}

struct Wait;

impl WaitContestant for Wait {
    type Completer = Promise<Instant>;
    type Waiter = Completion<Instant>;

    fn pair() -> (Self::Completer, Self::Waiter) {
        promise()
    }

    fn complete(completer: Self::Completer, stamp: Instant) {
        let _ = completer.succeed(stamp);
    }

    fn wait(waiter: Self::Waiter) -> Instant {
        waiter.wait().expect("it is completed with a stamp")
    }
}

/// Adds our contestants of `handoff` with at most 65,536 outstanding tasks.
pub(crate) fn handoff(lineup: &mut Lineup) {
    lineup.add::<Tidegate>("tidegate", Role::Ours, Limit::Own(OUTSTANDING));
}

/// Adds our contestant of `pingpong`.
pub(crate) fn pingpong(lineup: &mut Vec<Entry>) {
    lineup.push(crate::pingpong::entry::<Tidegate>(
        "tidegate",
        Role::Ours,
        Limit::Own(OUTSTANDING),
    ));
}

/// Adds our contestants of `promise`: one at a time.
pub(crate) fn promise_single(lineup: &mut Vec<Entry>) {
    lineup.push(suite::single::<Finally>("tidegate", Role::Ours));
    lineup.push(suite::single::<OnComplete>("tidegate (kept)", Role::Ours));
}

/// Adds our contestants of `promise`: 100,000 alive.
pub(crate) fn promise_outstanding(lineup: &mut Vec<Entry>) {
    lineup.push(suite::outstanding::<Finally>("tidegate", Role::Ours));
    lineup.push(suite::outstanding::<OnComplete>(
        "tidegate (kept)",
        Role::Ours,
    ));
}

/// Adds our contestant of `promise`: the blocking wait.
pub(crate) fn promise_wait(lineup: &mut Vec<Entry>) {
    lineup.push(suite::wait::<Wait>("tidegate", Role::Ours));
}
