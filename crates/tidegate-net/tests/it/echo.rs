//! The echo handler that most tests use.

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, Nothing};

/// Writes back what it reads.
pub(crate) struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}
