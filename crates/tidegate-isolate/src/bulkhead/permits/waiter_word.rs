//! Decides how the wait of a call for a permit ends. Exactly one of five sides does: the gate that
//! takes a permit for it, the gate that turns it away, a more critical call that takes its place, the
//! waiter that leaves, or the end of the isolation.

use tidegate_core::internal::prim::{AtomicU8, Ordering};

/// The state of one wait. It changes from [`WaiterWord::WAITING`] exactly once.
///
/// ```
/// use tidegate_isolate::internal::WaiterWord;
///
/// let word = WaiterWord::default();
/// assert_eq!(word.decide(WaiterWord::SERVED), Ok(()));
/// assert_eq!(word.decide(WaiterWord::GONE), Err(WaiterWord::SERVED), "a permit was taken for it");
/// ```
#[derive(Debug, Default)]
pub struct WaiterWord(AtomicU8);

impl WaiterWord {
    /// The wait has not ended.
    pub const WAITING: u8 = 0;
    /// A permit was taken for this waiter.
    pub const SERVED: u8 = 1;
    /// The waiter waited longer than its discipline allows.
    pub const TURNED_AWAY: u8 = 2;
    /// The waiter left, or its time was over.
    pub const GONE: u8 = 3;
    /// The isolation ends, so the waiter need not wait any longer.
    pub const CLOSED: u8 = 4;
    /// A more critical call has taken the place of the waiter.
    pub const DISPLACED: u8 = 5;

    /// Returns the state.
    pub fn get(&self) -> u8 {
        // ORDERING: Acquire pairs with the Release in `decide`: the actions of the deciding thread
        // before it, such as taking the permit, happen before the waiter uses the permit.
        self.0.load(Ordering::Acquire)
    }

    /// Decides how the wait ends. The thread that decides must wake the waiter.
    ///
    /// # Errors
    ///
    /// Returns the earlier decision, if there was one.
    pub fn decide(&self, how: u8) -> Result<(), u8> {
        // ORDERING: Release pairs with the Acquire in `get`. Acquire, as there: a thread that is
        // too late learns the decision, and may own a permit.
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let decided = self
            .0
            .compare_exchange(Self::WAITING, how, success, failure);
        decided.map(drop)
    }
}
