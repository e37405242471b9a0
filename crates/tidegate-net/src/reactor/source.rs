//! What a reactor tells that something is ready: event sources, whatever they are.
//!
//! Channels, listeners and sources of the user's implement [`EventSource`] in the layers above.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::Blocking;

use crate::metrics::Counters;
use crate::sys::{Chunk, Poller, Readiness, Source, Token};

/// Somebody who is told when its socket, or its mail box, is ready.
pub(crate) trait EventSource {
    /// Handles `readiness`, on the loop.
    fn ready(&mut self, readiness: Readiness, desk: &mut Desk) -> Next;

    /// It will be told of `readiness` soon, after others: receives already, if that is all there is
    /// to it. Nothing of others' may run here. True if it did, and its handlers say that they never
    /// block: then what it sends may wait for the others.
    fn receive_ahead(&mut self, readiness: Readiness, desk: &mut Desk) -> bool {
        let _ = (readiness, desk);
        false
    }

    /// Sends what it has to, after it asked for that with [`Next::Send`]. Nothing of others' may run
    /// here. False if there is more to do: then it is told once more that it may write.
    fn send_behind(&mut self, desk: &mut Desk) -> bool {
        let _ = desk;
        true
    }

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

    /// It will be told of something soon: asks for the memory that it will look at.
    fn expect(&self) {}

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
    /// To send, when the others of its group have been told, too.
    Send,
    /// Its socket to be watched, or no more.
    Watch(bool),
    /// To be forgotten.
    Leave,
}

/// What sources use while they are told: one for the whole loop, so that who idles holds none.
pub(crate) struct Desk {
    /// Where bytes are received.
    pub(crate) chunk: Chunk,
    /// Where datagrams are received; empty until the first.
    pub(crate) datagram: Vec<u8>,
    pub(crate) counters: Arc<Counters>,
    /// What was sent and is not the loop's, to be dropped where nothing is borrowed.
    pub(crate) spent: Vec<Bytes>,
    /// Who is told is one of a group of quick ones: what it sends may wait for the others.
    pub(crate) together: bool,
}

impl Desk {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            chunk: Chunk::default(),
            datagram: Vec::new(),
            counters,
            spent: Vec::new(),
            together: false,
        }
    }
}

/// Has `poller` watch `source`, or no more, and tells it how that went.
#[cold]
pub(crate) fn watch(
    poller: &mut dyn Poller,
    source: &mut dyn EventSource,
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
