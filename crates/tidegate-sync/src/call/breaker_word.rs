//! The state of a circuit breaker, and which phase of it: one word that every call looks at.
//!
//! Every change of the state begins a new phase. A call carries the phase that it was let through
//! in: its verdict counts only while that phase lasts, so a call that began before a trip can
//! neither close the breaker nor keep it open.

use crate::prim::{AtomicU64, Ordering};

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
/// use tidegate_sync::BreakerWord;
///
/// let word = BreakerWord::default();
/// let closed = word.get();
/// let open = word.change(closed, 1).expect("nobody else changed it");
/// assert_eq!((open.state(), open.number()), (1, 1));
/// assert_eq!(word.change(closed, 2), None, "that phase is over");
/// assert!(word.is_in(open.number()) && !word.is_in(closed.number()));
/// ```
#[derive(Debug, Default)]
pub struct BreakerWord(AtomicU64);

impl BreakerWord {
    /// The present phase. What was written before it began can be read.
    #[inline]
    pub fn get(&self) -> Phase {
        // ORDERING: Acquire pairs with the Release in `change`: who sees a state sees what
        // belongs to it.
        Phase(self.0.load(Ordering::Acquire))
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
            .0
            .compare_exchange(from.0, next, Ordering::AcqRel, Ordering::Acquire);
        won.is_ok().then_some(Phase(next))
    }
}
