//! Type-erased handlers: in a pipeline, or waiting to be inserted into one.
//!
//! A pending change waits in its channel and must be able to move with it to another thread. A
//! handler that is not `Send` stays in a thread-local map until its change is carried out; a ticket
//! waits in the channel instead. Channels with such handlers never change threads, so the ticket is
//! always redeemed on its own thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_promise::Promise;

use super::check::Name;
use super::context::HandlerContext;
use super::shape::Shape;
use crate::channel::{HandlerEvent, InEvent, OutOp};
use crate::message::Msg;

/// A handler as the pipeline stores it.
pub(crate) trait Erased {
    fn shape(&self) -> &'static Shape;
    /// Delivers a message. If it is the `last` one for the moment, also delivers the end of the
    /// read, unless the handler has pending actions that come first.
    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>);
    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>);
    fn own(&mut self, what: HandlerEvent, ctx: HandlerContext<'_>);
    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>);
    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>);
}

/// How a pipeline stores its handlers: bound to their thread, or `Send`.
pub(crate) trait HandlerStorage: Erased {
    /// Converts the handler; `None` if it is not `Send` but has to be.
    fn store(made: NewHandler) -> Option<Box<Self>>;
}

impl HandlerStorage for dyn Erased {
    fn store(made: NewHandler) -> Option<Box<Self>> {
        Some(match made {
            NewHandler::Send(handler) => handler,
            NewHandler::Local(handler) => handler,
        })
    }
}

impl HandlerStorage for dyn Erased + Send {
    fn store(made: NewHandler) -> Option<Box<Self>> {
        match made {
            NewHandler::Send(handler) => Some(handler),
            NewHandler::Local(_) => None,
        }
    }
}

/// The handlers of a new channel, first to last, after the check that they fit each other.
pub(crate) type Checked = Vec<(Name, NewHandler)>;

/// A handler that is not in a pipeline yet.
pub(crate) enum NewHandler {
    /// The handler may move to another thread.
    Send(Box<dyn Erased + Send>),
    /// The handler stays on the thread that created it.
    Local(Box<dyn Erased>),
}

impl NewHandler {
    pub(crate) fn shape(&self) -> &'static Shape {
        match self {
            Self::Send(handler) => handler.shape(),
            Self::Local(handler) => handler.shape(),
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

thread_local! {
    /// The handlers that stay on this thread, by ticket number.
    static LOCAL_HANDLERS: RefCell<HashMap<u64, Box<dyn Erased>>> = RefCell::default();
}

/// A handler that waits in a channel, or a ticket for it.
pub(crate) enum StoredHandler {
    Send(Box<dyn Erased + Send>),
    Local(Ticket),
}

/// Stands for a handler in the thread-local map. Dropping the ticket on that thread drops the
/// handler.
pub(crate) struct Ticket(u64);

impl StoredHandler {
    pub(crate) fn new(handler: NewHandler) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        match handler {
            NewHandler::Send(handler) => Self::Send(handler),
            NewHandler::Local(handler) => {
                let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
                LOCAL_HANDLERS.with_borrow_mut(|left| left.insert(ticket, handler));
                Self::Local(Ticket(ticket))
            }
        }
    }

    /// Returns the handler; `None` on any thread other than the handler's own.
    pub(crate) fn take(self) -> Option<NewHandler> {
        match self {
            Self::Send(handler) => Some(NewHandler::Send(handler)),
            Self::Local(ticket) => ticket.redeem().map(NewHandler::Local),
        }
    }
}

impl Ticket {
    fn redeem(&self) -> Option<Box<dyn Erased>> {
        let left = LOCAL_HANDLERS.try_with(|left| left.borrow_mut().remove(&self.0));
        left.ok().flatten()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.redeem());
    }
}
