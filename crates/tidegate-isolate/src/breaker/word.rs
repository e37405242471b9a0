//! The state of a circuit breaker and the number of its phase, in one word that every call reads.
//!
//! Every change of the state begins a new phase. A call carries the phase in which it passed. Its
//! verdict counts only while that phase lasts, so a call that began before the breaker opened can
//! neither close the breaker nor keep it open.
//!
//! A breaker over a time window is judged when a bucket of the window closes. A second word stores
//! the time of the next judgement. A caller that finds the judgement due makes it, under the lock
//! of the breaker. A caller that finds it not yet due relies on the state word as it is. The time
//! is therefore advanced after the state has changed, never before: otherwise a second caller would
//! overlook the judgement that the first is still making.

use tidegate_core::internal::prim::{AtomicU64, Ordering};

use super::state::BreakerState;

const STATE: u64 = 3;

/// A state and the number of its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(u64);

impl Phase {
    /// Returns the state.
    #[inline]
    pub fn state(self) -> BreakerState {
        match self.0 & STATE {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            2 => BreakerState::HalfOpen,
            _ => BreakerState::Ramping,
        }
    }

    /// Returns the number of state changes before this phase.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 2
    }
}

/// The atomic words of a breaker. In its first phase it is closed.
///
/// ```
/// use tidegate_isolate::BreakerState;
/// use tidegate_isolate::internal::BreakerWord;
///
/// let word = BreakerWord::default();
/// let closed = word.get();
/// let open = word.change(closed, BreakerState::Open).expect("no other thread changed it");
/// assert_eq!((open.state(), open.number()), (BreakerState::Open, 1));
/// assert_eq!(word.change(closed, BreakerState::HalfOpen), None, "that phase is over");
/// assert_eq!(word.get(), open);
/// ```
#[derive(Debug, Default)]
pub struct BreakerWord {
    phase: AtomicU64,
    /// When the next judgement is due.
    due: AtomicU64,
}

impl BreakerWord {
    /// Returns the current phase. Writes that were made before it began are visible.
    #[inline]
    pub fn get(&self) -> Phase {
        // ORDERING: Acquire pairs with the Release in `change`: a thread that sees a state sees the
        // data that belongs to it.
        Phase(self.phase.load(Ordering::Acquire))
    }

    /// Ends the phase `from` and begins a phase of state `to`. Returns `None` if `from` has already
    /// ended, so of several threads that want the same change, one makes it.
    pub fn change(&self, from: Phase, to: BreakerState) -> Option<Phase> {
        let next = (from.number() + 1) << 2 | to as u64;
        // ORDERING: AcqRel. Release pairs with the Acquire in `get`; Acquire, so that all threads
        // that change the phase see the phases in one order.
        let won = self
            .phase
            .compare_exchange(from.0, next, Ordering::AcqRel, Ordering::Acquire);
        won.is_ok().then_some(Phase(next))
    }

    /// Returns `true` if a judgement is due at `now`. If not, every judgement up to `now` was made,
    /// and [`BreakerWord::get`] returns the resulting state.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `judge`: a caller that sees the advanced time
        // sees the state that the judgement led to.
        now >= self.due.load(Ordering::Acquire)
    }

    /// Makes a judgement: calls `decide`, which may change the state, and then sets the next one to
    /// `next`. Called by one thread at a time, under the lock of the breaker.
    ///
    /// ```
    /// use tidegate_isolate::BreakerState;
    /// use tidegate_isolate::internal::BreakerWord;
    ///
    /// let word = BreakerWord::default();
    /// assert!(word.is_due(0), "nothing was judged yet");
    /// let closed = word.get();
    /// word.judge(10, || word.change(closed, BreakerState::Open));
    /// assert!(!word.is_due(9) && word.is_due(10));
    /// ```
    pub fn judge<R>(&self, next: u64, decide: impl FnOnce() -> R) -> R {
        let decided = decide();
        // ORDERING: Release pairs with the Acquire in `is_due`. The store comes after `decide` for
        // the same reason: until then, callers go to the lock and wait for this judgement.
        self.due.store(next, Ordering::Release);
        decided
    }
}
