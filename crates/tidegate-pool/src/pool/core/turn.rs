//! Releases the dispatch guard, then does the work that must not be done with the lock held.

use super::shared::{PoolDispatchGuard, Shared};

impl Shared {
    /// Releases the dispatch guard and then does what must not be done with the lock held. `then`
    /// runs first, because jobs may depend on it. User code follows, because it may take long.
    #[inline]
    pub(super) fn end_turn<R>(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        then: impl FnOnce() -> R,
    ) -> R {
        let broken = match turn.breach.is_some() {
            true => self.close_for_queue(&mut turn),
            false => None,
        };
        let shed = std::mem::take(&mut turn.shed);
        let news = match &self.on_low {
            Some(hook) => Some(hook).zip(self.low_change(&mut turn)),
            None => None,
        };
        drop(turn);
        let done = then();
        if let Some(broken) = broken {
            self.end_broken(broken);
        }
        if !shed.is_empty() {
            self.displace(shed);
        }
        if let Some((hook, low)) = news {
            self.call_low_hook(hook, low);
        }
        done
    }

    /// Checks whether the hook has to be called, after a thread was claimed without the lock.
    pub(super) fn look_at_low(&self) {
        if self.on_low.is_some() {
            self.end_turn(self.dispatcher.turn(), || ());
        }
    }
}
