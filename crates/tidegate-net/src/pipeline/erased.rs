//! A handler without its types: as a pipeline holds it, and on its way into one.
//!
//! What waits in a channel must be able to travel with it. A handler that cannot is left with its
//! thread between the word of a change and its turn, and a ticket waits instead; channels with such
//! handlers never travel, so the ticket is always redeemed where it was issued.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_promise::Promise;

use super::check::Name;
use super::context::HandlerContext;
use super::shape::Shape;
use crate::channel::{InEvent, OutOp, Own};
use crate::message::Msg;

/// A handler as a pipeline holds it.
pub(crate) trait Erased {
    fn shape(&self) -> &'static Shape;
    /// A message; if it is the `last` for the moment, the end of the read as well, unless the
    /// handler says something that comes before that.
    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>);
    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>);
    fn own(&mut self, what: Own, ctx: HandlerContext<'_>);
    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>);
    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>);
    /// Whether it keeps its place after its removal, until it says that it is done.
    fn lingers(&self) -> bool {
        false
    }
    /// Whether nothing has come to it since it has said so.
    fn is_idle(&self, _posted: u64) -> bool {
        true
    }
}

/// How a pipeline holds its handlers: bound to their thread, or free to leave it.
pub(crate) trait Held: Erased {
    /// The handler, if it can be held that way.
    fn hold(made: Made) -> Option<Box<Self>>;
}

impl Held for dyn Erased {
    fn hold(made: Made) -> Option<Box<Self>> {
        Some(match made {
            Made::Sent(handler) => handler,
            Made::Local(handler) => handler,
        })
    }
}

impl Held for dyn Erased + Send {
    fn hold(made: Made) -> Option<Box<Self>> {
        match made {
            Made::Sent(handler) => Some(handler),
            Made::Local(_) => None,
        }
    }
}

/// The handlers of a new channel, first to last, which fit each other.
pub(crate) type Checked = Vec<(Name, Made)>;

/// A handler that is in no pipeline yet.
pub(crate) enum Made {
    /// It may leave its thread.
    Sent(Box<dyn Erased + Send>),
    /// It stays where it was made.
    Local(Box<dyn Erased>),
}

impl Made {
    pub(crate) fn shape(&self) -> &'static Shape {
        match self {
            Self::Sent(handler) => handler.shape(),
            Self::Local(handler) => handler.shape(),
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

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
    pub(crate) fn new(handler: Made) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        match handler {
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
