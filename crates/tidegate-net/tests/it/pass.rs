//! A handler that changes nothing.

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, Nothing, Outbound, OutboundContext};

/// Passes everything on.
pub(crate) struct Pass;

impl Inbound for Pass {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

impl Outbound for Pass {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(bytes);
    }
}
