//! What the signal of a channel does on its loop: the channel handles its queued requests.

use std::sync::Arc;

use tidegate_core::internal::{Deliver, Delivery, SignalBlock};

use super::channel_request::refuse;
use super::shared::Shared;
use crate::reactor::{self, Update};
use crate::sys::{Readiness, Ready};

impl Deliver for Shared {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        let ready = Ready {
            token: block.token(),
            readiness: Readiness::REQUESTS,
        };
        if how == Delivery::Orphaned {
            block.finish(None);
        } else if let Some(roam) = block.roam().cloned() {
            // Before the registration there is nothing to do: the channel handles its requests when
            // it starts. A loop that has ended has closed it, or its task will.
            let _ = roam.push(Update::Requests(ready.token));
        } else if ready.token.bits() != 0 && !reactor::dispatch(ready) {
            // The channel is gone with its loop: nothing else will handle these requests.
            for request in block.take_requests() {
                refuse(request, None);
            }
        }
    }
}
