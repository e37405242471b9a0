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
//! Every edge raises the generation by one and is taken under the lock of the breaker; the word
//! is what calls look at without the lock. A call carries the generation that it passed under:
//! its verdict counts only while that generation lasts, so a call that began before a trip can
//! neither close the breaker nor keep it open.

use std::sync::Arc;

use super::word::{BreakerWord, Phase};
use crate::key::Key;

/// Where a breaker stands.
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
    /// Whether ordinary calls are denied.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::HalfOpen)
    }
}

/// A change of a breaker's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The key of the command.
    pub key: Key,
    /// The state that ended.
    pub from: BreakerState,
    /// The state that began.
    pub to: BreakerState,
    /// When, in nanoseconds of the clock.
    pub at_nanos: u64,
}

/// Hears of every change of a breaker's state.
pub(crate) type OnTransition = Arc<dyn Fn(&Transition) + Send + Sync>;

/// The word that calls look at; edges are taken under the breaker's lock.
#[derive(Debug, Default)]
pub(crate) struct StateWord(BreakerWord);

/// State and generation.
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

    /// Returns `true` if a window has closed that was not judged.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.0.is_due(now)
    }

    /// Judges with `decide`, which may take edges; the next judgement is due at `next`.
    pub(crate) fn judge<R>(&self, next: u64, decide: impl FnOnce() -> R) -> R {
        self.0.judge(next, decide)
    }

    /// Takes an edge. Only under the breaker's lock, so nobody else takes one.
    pub(crate) fn go(&self, state: BreakerState) {
        let changed = self.0.change(self.0.get(), state as u8);
        debug_assert!(changed.is_some(), "edges are taken under the lock");
    }
}
