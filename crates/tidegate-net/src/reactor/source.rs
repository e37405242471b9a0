//! Event sources: the receivers of a reactor's events.
//!
//! Channels and listeners implement [`IoSource`] in the layers above. Users implement [`EventSource`](crate::source::EventSource), whose
//! sources have a table of their own.

use std::any::Any;
use std::io;
use std::sync::Arc;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::contain;
use tidegate_core::{Blocking, Dump};

use super::batch::Batched;
use super::io_context::IoContext;
use crate::errors::clone_io_error;
use crate::sys::{Poller, Readiness, Source, Token};

/// A source of events: its socket becomes ready, or requests are queued for it.
pub(crate) trait IoSource: Batched {
    /// Handles `readiness`, on the loop. Returns what the source wants next.
    fn ready(&mut self, readiness: Readiness, io_context: &mut IoContext) -> Next;

    /// Returns the socket that the poller watches; `None` for a source that only handles queued
    /// requests.
    fn io(&mut self) -> Option<&mut dyn Source>;

    /// Records the result of a [`Next::Watch`]; an event for queued requests follows. Or records
    /// that the loop could not watch the source at all; the source is dropped next. No user code
    /// may run here.
    fn on_watch_result(&mut self, result: io::Result<()>) {
        drop(result);
    }

    /// Closes the source, because its loop ends or cannot watch it any more.
    fn close(&mut self, io_context: &mut IoContext);

    /// Returns the handle for other threads, if there is one.
    fn handle(&self) -> Option<Arc<dyn IoHandle>> {
        None
    }

    /// Returns the names of its parts, for a test: those of a channel's handlers.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the state of the source for a dump, where the reactor calls it `name`. Called by the
    /// thread that owns the source. No user code may run here.
    fn dump(&self, name: &str) -> Dump {
        Dump::new("source", name)
    }

    /// Returns whether the source may block the thread that runs it.
    fn blocking(&self) -> Blocking {
        Blocking::Never
    }

    /// Returns the place of the source in the wait record, if threads can wait for it while another
    /// thread runs it.
    fn place(&self) -> Option<ExecutorId> {
        None
    }
}

/// The handle of a source for other threads. The layer that created the source knows its type, and
/// gets it back with a downcast.
pub(crate) trait IoHandle: Any + Send + Sync {
    /// Returns the name of the peer, for reports.
    fn peer_name(&self) -> String;

    /// Returns what any thread can read of a source that is away from its reactor.
    fn dump(&self, name: &str) -> Dump;
}

/// What a source wants its reactor to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for the next event.
    Stay,
    /// Deliver this readiness once more, after the other sources.
    Again(Readiness),
    /// Watch its socket (`true`), or stop watching it.
    Watch(bool),
    /// Remove the source.
    Leave,
}

/// Makes `poller` watch `source`, or stop watching it, and passes the result to the source.
#[cold]
pub(super) fn watch<S: ?Sized + IoSource>(
    poller: &mut dyn Poller,
    source: &mut S,
    token: Token,
    yes: bool,
) {
    let result = match source.io() {
        Some(io) if yes => poller.register(io, token),
        Some(io) => poller.deregister(io),
        None => Ok(()),
    };
    source.on_watch_result(result);
}

/// Notifies a source that its loop cannot watch it, and drops it.
#[cold]
pub(super) fn refuse<S: ?Sized + IoSource>(mut source: Box<S>, why: &io::Error) {
    source.on_watch_result(Err(clone_io_error(why)));
    drop(source);
}

/// Closes a source and drops it. Handlers contain their own panics; dropping them may still panic.
pub(super) fn close_and_drop<S: ?Sized + IoSource>(mut source: Box<S>, io_context: &mut IoContext) {
    let _ = contain(|| {
        source.close(io_context);
        drop(source);
    });
}
