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

use std::sync::atomic::{AtomicU64, Ordering};

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

/// State and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) fn state(self) -> BreakerState {
        match self.0 & 3 {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            2 => BreakerState::HalfOpen,
            _ => BreakerState::Ramping,
        }
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> 2
    }

    fn next(self, state: BreakerState) -> Self {
        Self(((self.generation() + 1) << 2) | state as u64)
    }
}

/// The word that calls look at.
#[derive(Debug, Default)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    #[inline]
    pub(crate) fn get(&self) -> Word {
        // Acquire pairs with the Release in `go`: who sees a state sees what belongs to it.
        Word(self.0.load(Ordering::Acquire))
    }

    /// Takes an edge. Only under the breaker's lock.
    pub(crate) fn go(&self, state: BreakerState) -> Word {
        let word = self.get().next(state);
        self.0.store(word.0, Ordering::Release);
        word
    }
}
