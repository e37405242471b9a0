//! The state of a circuit breaker, and which phase of it: one word that every call looks at.
//!
//! Every change of the state begins a new phase. A call carries the phase that it was let through
//! in: its verdict counts only while that phase lasts, so a call that began before a trip can
//! neither close the breaker nor keep it open.
//!
//! A breaker that counts by time is judged when a bucket of its window closes. Beside the word lies
//! the time of the next judgement. A caller that finds it due judges, under the lock of the
//! breaker; a caller that finds it put off relies on the word as it is. So the time is put off after
//! the state has changed, never before: otherwise a second caller would pass by the judgement that
//! the first is still making.

use tidegate_core::prim::{AtomicU64, Ordering};

const STATE: u64 = 3;

/// A state, 0 to 3, and the number of its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(u64);

impl Phase {
    /// The state.
    #[inline]
    pub fn state(self) -> u8 {
        (self.0 & STATE) as u8
    }

    /// How many changes there were before it.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 2
    }
}

/// The word of a breaker. It begins in state 0.
///
/// ```
/// use tidegate_isolate::internal::BreakerWord;
///
/// let word = BreakerWord::default();
/// let closed = word.get();
/// let open = word.change(closed, 1).expect("nobody else changed it");
/// assert_eq!((open.state(), open.number()), (1, 1));
/// assert_eq!(word.change(closed, 2), None, "that phase is over");
/// assert!(word.is_in(open.number()) && !word.is_in(closed.number()));
/// ```
#[derive(Debug, Default)]
pub struct BreakerWord {
    phase: AtomicU64,
    /// When the next judgement is due.
    due: AtomicU64,
}

impl BreakerWord {
    /// The present phase. What was written before it began can be read.
    #[inline]
    pub fn get(&self) -> Phase {
        // ORDERING: Acquire pairs with the Release in `change`: who sees a state sees what
        // belongs to it.
        Phase(self.phase.load(Ordering::Acquire))
    }

    /// Whether the phase with this number lasts.
    #[inline]
    pub fn is_in(&self, number: u64) -> bool {
        self.get().number() == number
    }

    /// Ends the phase `from` and begins one of state `to`. None when `from` has ended already: of
    /// several who see a reason to change, one does.
    pub fn change(&self, from: Phase, to: u8) -> Option<Phase> {
        let next = (from.number() + 1) << 2 | u64::from(to) & STATE;
        // ORDERING: AcqRel. Release pairs with the Acquire in `get`; Acquire, so that the phases
        // lie in one order for whoever changes them.
        let won = self
            .phase
            .compare_exchange(from.0, next, Ordering::AcqRel, Ordering::Acquire);
        won.is_ok().then_some(Phase(next))
    }

    /// Returns `true` if a judgement is due at `now`. If not, every judgement up to now was made,
    /// and [`BreakerWord::get`] returns what came of it.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `judge`: a caller that sees the time put off
        // sees the state that the judgement led to.
        now >= self.due.load(Ordering::Acquire)
    }

    /// Makes a judgement: calls `decide`, which may change the state, and then puts the next one
    /// off until `next`. Only one caller at a time, under the lock of the breaker.
    ///
    /// ```
    /// use tidegate_isolate::internal::BreakerWord;
    ///
    /// let word = BreakerWord::default();
    /// assert!(word.is_due(0), "nothing was judged yet");
    /// let closed = word.get();
    /// word.judge(10, || word.change(closed, 1));
    /// assert!(!word.is_due(9) && word.is_due(10));
    /// ```
    pub fn judge<R>(&self, next: u64, decide: impl FnOnce() -> R) -> R {
        let decided = decide();
        // ORDERING: Release pairs with the Acquire in `is_due`. After `decide`, for the same
        // reason: until then, callers come to the lock and wait for this judgement.
        self.due.store(next, Ordering::Release);
        decided
    }
}
