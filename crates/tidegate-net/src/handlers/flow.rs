//! Delivers one message per requested read.

use std::collections::VecDeque;

use tidegate_core::Blocking;

use crate::channel::{InEvent, UserEvent, ends_input};
use crate::message::{AnyMessage, Nothing};
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// Passes on one message for each requested read, while the channel does not read on its own.
/// Belongs behind a decoder, which makes many messages of one read.
///
/// If the peer ends its stream, the end of input comes behind the last message, with the next
/// requested read. A handler that requests no more reads does not notice the end. When the handler
/// is removed, everything that waits is passed on.
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
    waiting: VecDeque<Held>,
    /// `true` if a message was requested while none was waiting.
    wanted: bool,
}

/// What waits for a requested read.
#[derive(Debug)]
enum Held {
    Message(AnyMessage),
    /// The end of input.
    End(UserEvent),
}

impl FlowControl {
    /// Creates a handler without waiting messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes on everything that waits, if the channel reads on its own again.
    fn release(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if ctx.is_auto_read() {
            self.release_all(ctx);
        }
    }

    fn release_all(&mut self, ctx: &mut InboundContext<'_, Self>) {
        for held in self.waiting.drain(..) {
            match held {
                Held::Message(message) => ctx.fire_read(message),
                Held::End(event) => ctx.fire_event(event),
            }
        }
    }

    /// Returns `true` if what comes now may pass: everything before it has, and it was requested.
    fn is_due(&mut self, ctx: &mut InboundContext<'_, Self>) -> bool {
        self.release(ctx);
        let free = ctx.is_auto_read() || std::mem::take(&mut self.wanted);
        free && self.waiting.is_empty()
    }
}

impl Inbound for FlowControl {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;
    // Without its outbound side the handler would not notice that a message is requested.
    const DUPLEX: bool = true;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !self.waiting.is_empty() {
            self.release_all(ctx);
            ctx.fire_read_complete();
        }
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        if self.is_due(ctx) {
            return ctx.fire_read(message);
        }
        self.waiting.push_back(Held::Message(message));
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if !ends_input(&event) || self.is_due(ctx) {
            return ctx.fire_event(event);
        }
        self.waiting.push_back(Held::End(event));
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
        for held in self.waiting.drain(..count) {
            match held {
                Held::Message(message) => ctx.pass_on(message),
                Held::End(event) => ctx.pass_on_event(InEvent::User(event)),
            }
        }
        ctx.pass_on_complete();
    }
}
