//! Asking an event loop to describe itself between two tasks.

use std::sync::{Arc, Weak};

use tidegate_core::Dump;
use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_promise::{Completion, Promise, promise_on};

use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

/// The signal for the requests of one event loop.
struct DumpSignal {
    shared: Weak<Shared>,
}

impl Deliver for DumpSignal {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        let Some(shared) = block.shared.upgrade() else {
            return;
        };
        match how {
            // `Core::answer_dumps` follows, or the end of the event loop.
            Delivery::Home => shared.dump_requests.arrive(),
            Delivery::Orphaned => shared.answer_dumps(None),
        }
    }
}

impl Shared {
    /// Asks the event loop for a dump. The completion always succeeds: an event loop without a
    /// thread is described at once, one that ends is described at its end.
    pub(crate) fn ask_for_dump(&self) -> Completion<Dump> {
        let (promise, dump): (Promise<Dump>, _) = promise_on(self.arc());
        let state = self.state.get();
        // Without a thread there is nothing that only a thread could read. None is started.
        if state <= Lifecycle::Suspended || state == Lifecycle::Terminated {
            let _ = promise.succeed(self.describe(None));
            return dump;
        }
        if self.dump_requests.add(promise) {
            let block = SignalBlock::new(DumpSignal {
                shared: Arc::downgrade(&self.arc()),
            });
            // A refused signal is delivered as orphaned, which answers the requests.
            if let Some(signal) = block.raise()
                && self.mailbox.signals.push(signal).is_ok()
            {
                self.ring();
            }
        }
        dump
    }

    /// Responds to all requests; `driver` is as for [`Shared::describe`].
    pub(crate) fn answer_dumps(&self, driver: Option<Dump>) {
        let requests = self.dump_requests.take();
        if requests.is_empty() {
            return;
        }
        let dump = self.describe(driver);
        for promise in requests {
            // Fails if the caller has cancelled the request.
            let _ = promise.succeed(dump.clone());
        }
    }
}
