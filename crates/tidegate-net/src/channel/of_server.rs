//! What the server of a channel needs of it: notices of a drain, and the memory that the channel
//! uses.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tidegate_core::internal::SignalBlock;
use tidegate_promise::Failure;

use super::channel_request::ChannelRequest;
use super::server_memory::{Charge, Exceeded, MemoryUser};
use super::shared::{Shared, flag};
use crate::errors::{NetError, peer_has_left};

impl Shared {
    /// Returns `true` on the first call: handlers are notified of a drain once.
    pub(crate) fn mark_drained(&self) -> bool {
        !self.set_flag(flag::DRAINED, true)
    }

    /// Returns `true` on the first call, unless the handlers were notified of a drain itself.
    pub(crate) fn mark_announced(&self) -> bool {
        let before = self.flags.fetch_or(flag::ANNOUNCED, Ordering::Relaxed);
        before & (flag::ANNOUNCED | flag::DRAINED) == 0
    }

    /// Returns `true` if a drain of the channel's server was announced or has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.origin().is_some_and(|origin| origin.is_announced())
    }

    /// Returns `true` if an error only says that the peer has left while the server drains. The drain
    /// has asked for that, so it is nobody's error. The writes that are lost fail with it.
    #[cold]
    pub(crate) fn is_departure(&self, why: &Failure) -> bool {
        peer_has_left(why) && self.is_draining()
    }

    /// Begins to count the memory of the channel, if its server has a cap.
    pub(super) fn begin_charge(block: &Arc<SignalBlock<Self>>) {
        let Some(memory) = block.origin().and_then(|origin| origin.memory()) else {
            return;
        };
        block.set_charge(Charge::new(Arc::clone(memory)));
        let user: Weak<SignalBlock<Self>> = Arc::downgrade(block);
        memory.enter(block.memory_key(), user);
    }

    /// Ends the charge of a channel that is closed.
    pub(super) fn leave_memory(&self, charge: Option<Charge>) {
        if let Some(memory) = self.origin().and_then(|origin| origin.memory()) {
            memory.leave(self.memory_key());
        }
        if let Some(charge) = charge {
            charge.end();
        }
    }

    /// Counts and reports that the channel, which is still open, is closed for the memory limit of
    /// its server. Called on the loop, once.
    #[cold]
    pub(super) fn count_memory_close(&self, why: &NetError) {
        if let Some(memory) = self.origin().and_then(|origin| origin.memory()) {
            memory.count_closed();
        }
        self.report(why);
    }

    /// Counts the pending size on the loop. Called by the loop, when the size has changed or it has
    /// taken queued writes.
    pub(super) fn charge_pending(&self, pending: usize) {
        self.charge(|charge| charge.set_pending(pending));
    }

    /// Counts received bytes that a handler keeps.
    pub(crate) fn hold_input(&self, bytes: usize) {
        self.charge(|charge| charge.hold_input(bytes));
    }

    pub(crate) fn release_input(&self, bytes: usize) {
        self.charge(|charge| {
            charge.release_input(bytes);
            None
        });
    }

    /// Returns `true` if the server of the channel has a cap of memory.
    #[inline]
    pub(super) fn is_charged(&self) -> bool {
        let origin = self.origin();
        origin.is_some_and(|origin| origin.memory().is_some())
    }

    #[inline]
    fn charge(&self, change: impl FnOnce(&mut Charge) -> Exceeded) {
        if self.is_charged() {
            let exceeded = self.with_charge(|charge| charge.as_mut().and_then(change));
            if let Some(memory) = exceeded {
                memory.close_largest();
            }
        }
    }

    /// Returns the key of the channel among those of its server: its address in memory, which no
    /// other channel has before this one is removed.
    fn memory_key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl MemoryUser for SignalBlock<Shared> {
    fn used(&self) -> usize {
        self.with_charge(|charge| charge.as_ref().map_or(0, Charge::size))
    }

    fn end_charge(&self) -> Option<usize> {
        let ended = self.with_charge(|charge| charge.take_if(|charge| charge.counted() > 0));
        ended.map(Charge::end)
    }

    fn close_for(self: Arc<Self>, why: NetError) {
        self.set_ends();
        // Refused: the channel is closed for another reason.
        let _ = Shared::post(&self, ChannelRequest::CloseForMemory(why), true);
    }
}
