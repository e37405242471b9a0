//! The end of a turn at the desk: releases the lock, then does what must not be done with it held.

use super::shared::{PoolTurn, Shared};

impl Shared {
    /// Gives up the turn, then does what must not be done with the lock held: first `then`, which
    /// jobs may depend on, and after it the code of the user's, which may take its time.
    #[inline]
    pub(super) fn end_turn<R>(&self, mut turn: PoolTurn<'_>, then: impl FnOnce() -> R) -> R {
        let shed = std::mem::take(&mut turn.shed);
        let news = match &self.on_low {
            Some(hear) => Some(hear).zip(self.news_of_low(&mut turn)),
            None => None,
        };
        drop(turn);
        let done = then();
        if !shed.is_empty() {
            self.displace(shed);
        }
        if let Some((hear, low)) = news {
            self.tell_low(hear, low);
        }
        done
    }

    /// Looks whether the hook has to be told something, after a thread was taken without the lock.
    pub(super) fn look_at_low(&self) {
        if self.on_low.is_some() {
            self.end_turn(self.desk.turn(), || ());
        }
    }
}
