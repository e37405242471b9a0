//! What a reactor tells that something is ready: event sources, whatever they are.
//!
//! Channels, listeners and sources of the user's implement [`EventSource`] in the layers above.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::{Blocking, contain};

use super::batch::Batched;
use super::desk::Desk;
use crate::errors::clone_io_error;
use crate::sys::{Poller, Readiness, Source, Token};

/// Somebody who is told when its socket, or its mail box, is ready.
pub(crate) trait EventSource: Batched {
    /// Handles `readiness`, on the loop.
    fn ready(&mut self, readiness: Readiness, desk: &mut Desk) -> Next;

    /// What the poller watches; `None` for who lives of mail alone.
    fn io(&mut self) -> Option<&mut dyn Source>;

    /// The loop has watched its socket, or no more, as it asked with [`Next::Watch`]; it is told of
    /// mail next. Or the loop could not watch it at all, and it is dropped next. Only notes that:
    /// nothing of others' may run here.
    fn watched(&mut self, said: io::Result<()>) {
        drop(said);
    }

    /// The loop ends: says goodbye.
    fn close(&mut self, desk: &mut Desk);

    /// Returns what other threads hold of it, if anything.
    fn handle(&self) -> Option<Arc<dyn SourceHandle>> {
        None
    }

    /// Returns the names of its parts, for a test to look at: those of a channel's handlers.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it may do to the thread on which it is told.
    fn blocking(&self) -> Blocking {
        Blocking::Never
    }
}

/// What other threads hold of a source, wherever that is. The layer that made the source knows its
/// type, and gets it back with a downcast.
pub(crate) trait SourceHandle: Any + Send + Sync {
    /// Returns the address of the other side, for reports.
    fn peer_addr(&self) -> Option<SocketAddr>;
}

/// What a source wants after it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To be told of the next event.
    Stay,
    /// To be told of this once more, after the others had their turn.
    Again(Readiness),
    /// To send when the others of its batch have been told, too.
    SendLate,
    /// Its socket to be watched, or no more.
    Watch(bool),
    /// To be forgotten.
    Leave,
}

/// Has `poller` watch `source`, or no more, and tells it how that went.
#[cold]
pub(super) fn watch<S: ?Sized + EventSource>(
    poller: &mut dyn Poller,
    source: &mut S,
    token: Token,
    yes: bool,
) {
    let said = match source.io() {
        Some(io) if yes => poller.register(io, token),
        Some(io) => poller.deregister(io),
        None => Ok(()),
    };
    source.watched(said);
}

/// Tells a source that its loop cannot watch it, and drops it.
#[cold]
pub(super) fn refuse<S: ?Sized + EventSource>(mut source: Box<S>, why: &io::Error) {
    source.watched(Err(clone_io_error(why)));
    drop(source);
}

/// Closes a source and drops it. What handlers do wrong they contain themselves; their drops may
/// still panic.
pub(super) fn close_and_drop<S: ?Sized + EventSource>(mut source: Box<S>, desk: &mut Desk) {
    let _ = contain(|| {
        source.close(desk);
        drop(source);
    });
}
