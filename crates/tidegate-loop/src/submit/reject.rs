//! What happens to a task that a loop cannot take.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::{
    CancelToken, Parker, Refusal, RejectWith, Rejected, Stance, Task, is_current, stance,
};

use crate::state::shared::Shared;

/// A pause longer than this also ends when the loop does; a shorter one is over soon anyway, and
/// listening for the end costs more than it.
const LONG_PAUSE: Duration = Duration::from_millis(10);

/// What a loop does with a task for which its lane has no room.
///
/// A closed loop always refuses; the policy is about full ones.
#[derive(Clone, Default)]
pub enum RejectPolicy {
    /// Gives the task back at once.
    #[default]
    Fail,
    /// Wakes the loop, waits for `pause` and tries again, up to `attempts` times; then gives
    /// the task back. On the loop's own thread, where waiting would be a deadlock, and on any
    /// other that must not block, it gives it back at once. A pause ends early when the token of
    /// [`EventLoop::execute_with`](crate::EventLoop::execute_with) is tripped, and a long one when
    /// the loop ends.
    Backoff {
        /// How often to try again; at least once.
        attempts: u32,
        /// How long to wait before each.
        pause: Duration,
    },
    /// Asks the closure: it gets the refusal and either deals with the task or passes it on. It
    /// runs on the submitter's thread.
    With(RejectWith),
}

impl fmt::Debug for RejectPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("Fail"),
            Self::Backoff { attempts, pause } => f
                .debug_struct("Backoff")
                .field("attempts", attempts)
                .field("pause", pause)
                .finish(),
            Self::With(_) => f.write_str("With(..)"),
        }
    }
}

impl Shared {
    /// Deals with a task that the lane did not take, as the policy says.
    #[cold]
    pub(crate) fn refuse(&self, refused: Rejected<Task>) -> Result<(), Rejected<Task>> {
        self.refuse_with(refused, None)
    }

    /// The same; a pause ends when `token` is tripped.
    #[cold]
    pub(crate) fn refuse_with(
        &self,
        refused: Rejected<Task>,
        token: Option<&CancelToken>,
    ) -> Result<(), Rejected<Task>> {
        let outcome = match (&self.reject, refused.why()) {
            (RejectPolicy::Backoff { attempts, pause }, Refusal::Full)
                if !is_current(self.id) && stance() == Stance::Free =>
            {
                self.back_off(refused, (*attempts).max(1), *pause, token)
            }
            (RejectPolicy::With(ask), Refusal::Full) => ask(refused),
            _ => Err(refused),
        };
        if outcome.is_err() {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn back_off(
        &self,
        mut refused: Rejected<Task>,
        attempts: u32,
        pause: Duration,
        token: Option<&CancelToken>,
    ) -> Result<(), Rejected<Task>> {
        let parker = Parker::new();
        let wake = || {
            let parker = parker.clone();
            move || parker.unpark()
        };
        let _hook = token.map(|token| token.on_cancel(wake()));
        let _listening = (pause > LONG_PAUSE).then(|| {
            let wake = wake();
            self.termination().listen(move |_| wake())
        });
        let is_cut_short = || token.is_some_and(CancelToken::is_cancelled);
        for _ in 0..attempts {
            self.ring();
            let until = self.clock.deadline(pause);
            while self.clock.nanos() < until && !is_cut_short() && !self.lane.is_closed() {
                self.clock.park_until(&parker, Some(until));
            }
            if is_cut_short() {
                return Err(Rejected::new(refused.into_inner(), Refusal::Interrupted));
            }
            match self.lane.push(refused.into_inner()) {
                Ok(_) => {
                    self.ring();
                    return Ok(());
                }
                Err(again) => refused = again,
            }
            if refused.why() == Refusal::Closed {
                break;
            }
        }
        Err(refused)
    }
}
