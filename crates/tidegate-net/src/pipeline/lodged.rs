//! Handlers on their way into a chain, between the word of a change and its turn.
//!
//! What waits in a channel must be able to travel with it. A handler that cannot is left with its
//! thread meanwhile, and a ticket waits instead; channels with such handlers never travel, so the
//! ticket is always redeemed where it was issued.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::change::Handler;
use super::handler::{Erased, Made};

thread_local! {
    /// Handlers left here, by ticket.
    static LEFT: RefCell<HashMap<u64, Box<dyn Erased>>> = RefCell::default();
}

/// A handler, or a ticket for one.
pub(crate) enum Lodged {
    Sent(Box<dyn Erased + Send>),
    Left(Ticket),
}

/// Stands for a handler that was left with its thread; dropped there, takes it along.
pub(crate) struct Ticket(u64);

impl Lodged {
    pub(crate) fn new(handler: Handler) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        match handler.0 {
            Made::Sent(handler) => Self::Sent(handler),
            Made::Local(handler) => {
                let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
                LEFT.with_borrow_mut(|left| left.insert(ticket, handler));
                Self::Left(Ticket(ticket))
            }
        }
    }

    /// The handler; `None` on another thread than its own.
    pub(crate) fn take(self) -> Option<Made> {
        match self {
            Self::Sent(handler) => Some(Made::Sent(handler)),
            Self::Left(ticket) => ticket.redeem().map(Made::Local),
        }
    }
}

impl Ticket {
    fn redeem(&self) -> Option<Box<dyn Erased>> {
        let left = LEFT.try_with(|left| left.borrow_mut().remove(&self.0));
        left.ok().flatten()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.redeem());
    }
}

impl fmt::Debug for Lodged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lodged")
    }
}
