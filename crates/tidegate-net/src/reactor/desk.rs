//! What sources use while they are told of something: buffers and counters.

use std::sync::Arc;

use super::batch::Together;
use crate::metrics::Counters;
use crate::sys::Chunk;

/// Buffers and counters: one for the whole loop, or for each task of a roaming one, so that a source
/// that idles holds none.
pub(crate) struct Desk {
    /// Where bytes are received.
    pub(crate) chunk: Chunk,
    /// Where datagrams are received; empty until the first.
    pub(crate) datagram: Vec<u8>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) batch: Together,
}

impl Desk {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            chunk: Chunk::default(),
            datagram: Vec::new(),
            counters,
            batch: Together::default(),
        }
    }
}
