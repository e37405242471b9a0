//! Adds leases to the thread budget of a pool and removes them.

use crate::pool::budget::{LeaseInfo, ThreadBudgetError};

use super::shared::Shared;

impl Shared {
    /// Leases threads to a component. Returns the id under which they are returned.
    ///
    /// # Errors
    ///
    /// [`ThreadBudgetError`] if no thread would be left for jobs. The budget is unchanged then.
    pub(crate) fn add_lease(&self, lease: LeaseInfo) -> Result<u64, ThreadBudgetError> {
        let mut turn = self.dispatcher.turn();
        let max = turn.limits.max;
        let id = turn.budget.add(lease, max)?;
        if !turn.is_closed() {
            let leased = turn.budget.leased();
            if let Err(waits) = self.set_width(&turn.limits, leased) {
                return Err(turn.budget.undo(id, max, waits));
            }
            turn.set_leased(leased);
            // A pool that queues first may start more threads now.
            self.end_turn(turn, || self.start_for_all_waiting());
        }
        Ok(id)
    }

    /// Returns the threads of a lease.
    pub(crate) fn end_lease(&self, id: u64) {
        let mut turn = self.dispatcher.turn();
        turn.budget.remove(id);
        if !turn.is_closed() {
            let leased = turn.budget.leased();
            turn.set_leased(leased);
            // A greater width is never refused.
            let widened = self.set_width(&turn.limits, leased);
            debug_assert!(widened.is_ok(), "{widened:?}");
        }
    }
}
