//! The states of a breaker, in one word with a generation.
//!
//! ```text
//!              trip                sleep over, first attempt
//!   CLOSED ───────────▶ OPEN ──────────────────────────────▶ HALF_OPEN
//!     ▲  ▲               ▲ ▲                                   │   │
//!     │  │               │ └── a probe fails, is dropped, ─────┘   │
//!     │  │          trip │     or takes too long                   │
//!     │  └──────────── RAMPING ◀──── enough probes succeed ────────┤
//!     │   ramp over                  (with a ramp)                 │
//!     └──────────────────────────────────── (without a ramp) ──────┘
//! ```
//!
//! Every transition increments the generation and is made under the breaker's lock; calls read the
//! word without the lock. A call carries the generation under which it passed. Its verdict counts
//! only while that generation lasts, so a call that began before the breaker opened can neither
//! close the breaker nor keep it open.

use std::sync::Arc;

use super::word::{BreakerWord, Phase};
use crate::key::Key;

/// The state of a breaker.
///
/// ```
/// use tidegate_isolate::BreakerState;
///
/// assert!(BreakerState::HalfOpen.is_open() && !BreakerState::Closed.is_open());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum BreakerState {
    /// Calls pass and are counted.
    Closed = 0,
    /// Calls are denied until the sleep is over.
    Open = 1,
    /// Only probes pass.
    HalfOpen = 2,
    /// A rising share of the calls passes.
    Ramping = 3,
}

impl BreakerState {
    /// Returns `true` if ordinary calls are denied.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::HalfOpen)
    }

    /// Returns the state as one word, for events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Ramping => "ramping",
        }
    }
}

/// A change of a breaker's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerTransition {
    /// The key of the command.
    pub key: Key,
    /// The state that ended.
    pub from: BreakerState,
    /// The state that began.
    pub to: BreakerState,
    /// When, in nanoseconds of the clock.
    pub at_nanos: u64,
}

/// A listener that is called at every transition of a breaker.
pub(crate) type OnTransition = Arc<dyn Fn(&BreakerTransition) + Send + Sync>;

/// The word that calls read; transitions are made under the breaker's lock.
#[derive(Debug, Default)]
pub(crate) struct StateWord(BreakerWord);

/// A state and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(Phase);

impl Word {
    #[inline]
    pub(crate) fn state(self) -> BreakerState {
        match self.0.state() {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            2 => BreakerState::HalfOpen,
            _ => BreakerState::Ramping,
        }
    }

    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.0.state() == BreakerState::Closed as u8
    }

    #[inline]
    pub(crate) fn generation(self) -> u64 {
        self.0.number()
    }
}

impl StateWord {
    #[inline]
    pub(crate) fn get(&self) -> Word {
        Word(self.0.get())
    }

    /// Returns `true` if a window has closed that was not judged yet.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.0.is_due(now)
    }

    /// Judges with `decide`, which may make transitions. The next judgement is due at `next`.
    pub(crate) fn judge<R>(&self, next: u64, decide: impl FnOnce() -> R) -> R {
        self.0.judge(next, decide)
    }

    /// Makes a transition. Called only under the breaker's lock, so no other thread makes one.
    pub(crate) fn go(&self, state: BreakerState) {
        let changed = self.0.change(self.0.get(), state as u8);
        debug_assert!(changed.is_some(), "edges are taken under the lock");
    }
}
