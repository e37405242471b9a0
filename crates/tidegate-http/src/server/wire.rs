//! What a connection needs from the context of its handler, in both directions.
//!
//! Requests arrive through the inbound context, parts of responses through the outbound one. The
//! connection treats both alike.

use std::ops::DerefMut;

use bytes::{Bytes, BytesMut};
use tidegate_net::{FileRange, HandlerContext, Inbound, InboundContext, Outbound, OutboundContext};

/// A context that can write bytes.
pub(crate) trait Wire<'a>: DerefMut<Target = HandlerContext<'a>> {
    /// Returns memory of the loop. Its content is sent with the next flush, before later writes.
    fn output(&mut self) -> &mut BytesMut;

    /// Writes bytes after everything written so far.
    fn send(&mut self, bytes: Bytes);

    /// Writes a range of a file after everything written so far.
    fn send_file(&mut self, range: FileRange);
}

impl<'a, H: Inbound<Write = Bytes>> Wire<'a> for InboundContext<'a, H> {
    #[inline]
    fn output(&mut self) -> &mut BytesMut {
        InboundContext::output(self)
    }

    #[inline]
    fn send(&mut self, bytes: Bytes) {
        self.write(bytes);
    }

    fn send_file(&mut self, range: FileRange) {
        self.write_file(range);
    }
}

impl<'a, H: Outbound<Write = Bytes>> Wire<'a> for OutboundContext<'a, H> {
    #[inline]
    fn output(&mut self) -> &mut BytesMut {
        OutboundContext::output(self)
    }

    #[inline]
    fn send(&mut self, bytes: Bytes) {
        self.write(bytes);
    }

    fn send_file(&mut self, range: FileRange) {
        self.write_file(range);
    }
}
