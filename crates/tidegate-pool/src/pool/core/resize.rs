//! Changes the limits of a pool while it runs.

use crate::pool::limits::{PoolError, PoolLimits};

use super::shared::Shared;

impl Shared {
    /// Changes every limit in one step and returns the previous ones. Then starts threads for the
    /// queued jobs, which may run user code.
    pub(crate) fn resize(&self, limits: PoolLimits) -> Result<PoolLimits, PoolError> {
        let before = self.set_limits(limits)?;
        self.start_for_all_waiting();
        Ok(before)
    }

    /// Changes every limit in one step and returns the previous ones. Starts no thread.
    pub(crate) fn set_limits(&self, limits: PoolLimits) -> Result<PoolLimits, PoolError> {
        limits.check()?;
        let mut turn = self.dispatcher.turn();
        if turn.is_closed() {
            return Err(PoolError::Shutdown);
        }
        turn.budget.check(limits.max).map_err(PoolError::Budget)?;
        let leased = turn.budget.leased();
        self.set_width(&limits, leased).map_err(PoolError::InUse)?;
        let before = std::mem::replace(&mut turn.limits, limits);
        let wakes = turn.set_limits(limits.dispatcher(leased), limits.reserved);
        self.show(&limits);
        self.end_turn(turn, || drop(wakes));
        Ok(before)
    }

    /// Returns the limits in force.
    pub(crate) fn limits(&self) -> PoolLimits {
        self.dispatcher.turn().limits
    }
}
