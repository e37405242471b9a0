//! What a connection shares with the handles of its responses: the way back to it.
//!
//! A connection makes it for its first response that is deferred or streamed, and keeps it until it
//! ends. Each handle holds one reference, which is one atomic operation to take and one to return.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_net::{Channel, Neighbour};

use super::part::{Part, PartKind};
use super::shared::ServerShared;

/// The way from the handles of responses to their connection.
#[derive(Debug)]
pub(crate) struct ReplyPath {
    pub(crate) channel: Channel,
    pub(crate) server: Arc<ServerShared>,
    /// The number of the first response that the connection takes no more. Responses have an order,
    /// so that one number stands for all that were given up.
    cutoff: AtomicU64,
}

impl ReplyPath {
    pub(crate) fn new(channel: Channel, server: Arc<ServerShared>) -> Arc<Self> {
        Arc::new(Self {
            channel,
            server,
            cutoff: AtomicU64::new(u64::MAX),
        })
    }

    /// Sends a part of response `seq`.
    pub(crate) fn send(&self, seq: u64, what: PartKind) {
        // Usually from a task or a handler of the connection's own loop.
        Neighbour::of(&self.channel).pass(Part { seq, what });
    }

    /// Gives up the response `seq` and all behind it, before the connection is closed.
    pub(crate) fn give_up_from(&self, seq: u64) {
        self.cutoff.fetch_min(seq, Ordering::Relaxed);
    }

    /// Returns `true` if nothing of the response `seq` can be sent: it was given up, or the connection
    /// has ended.
    pub(crate) fn is_closed_for(&self, seq: u64) -> bool {
        !self.channel.is_active() || seq >= self.cutoff.load(Ordering::Relaxed)
    }
}
