//! The I/O context: buffers and counters that a source uses while it handles an event.

use std::sync::Arc;

use crate::metrics::Counters;
use crate::sys::{Chunk, Lent};

/// Buffers and counters for the source that handles an event. A pinned loop has one, a roaming loop
/// one for each task, so that an idle source holds no buffer.
pub(crate) struct IoContext {
    /// The buffer for received bytes.
    pub(crate) chunk: Chunk,
    /// The memory for handlers. `None` until one uses it, and while a channel has it.
    pub(crate) lent: Option<Box<Lent>>,
    /// The buffer for received datagrams; empty until the first.
    pub(crate) datagram: Vec<u8>,
    pub(crate) counters: Arc<Counters>,
}

impl IoContext {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            chunk: Chunk::default(),
            lent: None,
            datagram: Vec::new(),
            counters,
        }
    }
}
