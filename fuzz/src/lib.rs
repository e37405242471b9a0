//! The property that every target checks: a decoder returns the same frames however the input is
//! split, and does not panic.

/// The messages of an HTTP connection as a list of events.
#[path = "../../crates/tidegate-http/tests/it/events.rs"]
pub mod http;

/// A connection of an HTTP server.
#[path = "../../crates/tidegate-http/tests/it/connection.rs"]
pub mod connection;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing, PipelineBuilder};
use tidegate_promise::Failure;

/// The decoded frames in order; `None` is an error.
type Seen = Arc<Mutex<Vec<Option<Bytes>>>>;

struct Collects(Seen);

impl Collects {
    fn push(&self, frame: Option<Bytes>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(frame);
    }
}

impl Inbound for Collects {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, frame: Bytes, _: &mut InboundContext<'_, Self>) {
        self.push(Some(frame));
    }

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        // The pipeline catches panics; in a fuzz target a panic must end the process.
        if why.is_panic() {
            std::process::abort();
        }
        self.push(None);
    }
}

/// Returns the output of the decoder for `data` in pieces of `size` bytes.
pub fn decode(
    add: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
    data: &[u8],
    size: usize,
) -> Vec<Option<Bytes>> {
    let seen = Seen::default();
    let end = Collects(Arc::clone(&seen));
    let mut channel = EmbeddedChannel::new(|p| add(p).add("end", end)).expect("the chain fits");
    for piece in data.chunks(size.max(1)) {
        channel.write_inbound(Bytes::copy_from_slice(piece));
    }
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *seen)
}

/// Checks that the output does not depend on the split. The first byte of `data` is the size of the
/// pieces.
pub fn check(add: impl Fn(PipelineBuilder) -> PipelineBuilder, data: &[u8]) {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let whole = decode(&add, data, data.len());
    let pieces = decode(&add, data, usize::from(size));
    assert_eq!(pieces, whole);
}
