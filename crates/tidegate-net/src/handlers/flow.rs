//! Delivers one message per requested read.

use std::collections::VecDeque;

use tidegate_core::Blocking;

use crate::message::{AnyMessage, Nothing};
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// Passes on one message for each requested read, while the channel does not read on its own.
/// Belongs behind a decoder, which makes many messages of one read.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::handlers::{FlowControl, LineFrames};
/// use tidegate_net::{ChannelOptions, EmbeddedChannel};
///
/// let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
/// let mut channel = EmbeddedChannel::with_options(options, |p| {
///     p.add("lines", LineFrames::max(80)).add_duplex("flow", FlowControl::new())
/// })?;
/// channel.channel().read();
/// channel.run();
/// channel.receive("one\ntwo\n");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
/// assert!(channel.read_inbound::<Bytes>().is_none());
/// channel.channel().read();
/// channel.run();
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct FlowControl {
    waiting: VecDeque<AnyMessage>,
    /// `true` if a message was requested while none was waiting.
    wanted: bool,
}

impl FlowControl {
    /// Creates a handler without waiting messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes all waiting messages on if the channel reads on its own again.
    fn release(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if ctx.is_auto_read() {
            for message in self.waiting.drain(..) {
                ctx.fire_read(message);
            }
        }
    }
}

impl Inbound for FlowControl {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        for message in self.waiting.drain(..) {
            ctx.fire_read(message);
        }
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        self.release(ctx);
        let free = ctx.is_auto_read() || std::mem::take(&mut self.wanted);
        if free && self.waiting.is_empty() {
            return ctx.fire_read(message);
        }
        self.waiting.push_back(message);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.release(ctx);
        ctx.fire_read_complete();
        if self.wanted && !ctx.is_auto_read() {
            // The received bytes were not a whole message.
            ctx.read();
        }
    }
}

impl Outbound for FlowControl {
    type Take = AnyMessage;
    type Write = AnyMessage;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        let many = ctx.is_auto_read();
        if self.waiting.is_empty() {
            self.wanted = !many;
            return ctx.read();
        }
        let count = if many { self.waiting.len() } else { 1 };
        for message in self.waiting.drain(..count) {
            ctx.pass_on(message);
        }
        ctx.pass_on_complete();
    }
}
