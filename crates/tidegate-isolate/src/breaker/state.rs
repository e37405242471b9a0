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

    pub(crate) const ALL: [Self; 4] = [Self::Closed, Self::Open, Self::HalfOpen, Self::Ramping];

    /// Returns the state as one word, for events and labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HalfOpen => "half_open",
            other => other.words(),
        }
    }

    /// Returns the state in words, for readers.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half open",
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
