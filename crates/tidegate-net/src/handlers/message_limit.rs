//! Limits the messages per second.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_promise::Failure;

use super::traffic::{Pause, Rate};
use crate::channel::{UserEvent, ends_input};
use crate::errors::NetError;
use crate::message::{AnyMessage, Nothing};
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// Limits how many messages per second a channel receives. Belongs behind a decoder, which makes
/// messages of bytes.
///
/// Messages above the limit wait, in order, and the channel does not read meanwhile, which in the
/// end stops the peer. Only messages of the last read wait, so their number is bounded. With
/// [`closes`](MessageLimit::closes), a message above the limit is an error instead. When the handler
/// is removed, waiting messages are passed on and reading resumes. If the peer ends its stream
/// meanwhile, the end of input comes after the last waiting message.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{LineFrames, MessageLimit, Rate};
///
/// let limit = MessageLimit::new(Rate::messages_per_second(2));
/// let mut channel = EmbeddedChannel::new(|p| {
///     p.add("lines", LineFrames::max(80)).add_duplex("limit", limit)
/// })?;
/// channel.receive("one\ntwo\nthree\n");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "two");
/// assert!(channel.read_inbound::<Bytes>().is_none());
/// channel.advance(Duration::from_millis(500));
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "three");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MessageLimit {
    rate: Rate,
    closes: bool,
    /// Messages above the limit, with the times from which they may pass.
    waiting: VecDeque<(u64, AnyMessage)>,
    paused: Option<Pause>,
    /// `true` while a timer is set.
    armed: bool,
    /// The events that follow the last waiting message, once the input has ended.
    ends: Vec<UserEvent>,
}

impl MessageLimit {
    /// Creates a handler that lets messages pass at `rate`: see
    /// [`Rate::messages_per_second`]. Clones of the rate limit several channels together.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            closes: false,
            waiting: VecDeque::new(),
            paused: None,
            armed: false,
            ends: Vec::new(),
        }
    }

    /// Drops a message above the limit and fires a [`NetError::TooManyMessages`], which closes the
    /// connection if no handler takes it.
    pub fn closes(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Passes on the messages whose time has come, or all of them.
    fn release(&mut self, all: bool, ctx: &mut InboundContext<'_, Self>) {
        let now = ctx.now();
        let mut any = false;
        while let Some((due, message)) = self.waiting.pop_front() {
            if due > now && !all {
                self.waiting.push_front((due, message));
                break;
            }
            any = true;
            ctx.fire_read(message);
        }
        if any {
            ctx.fire_read_complete();
        }
        if self.waiting.is_empty() {
            for end in self.ends.drain(..) {
                ctx.fire_event(end);
            }
        }
    }

    /// Sets the timer for the next message, or resumes reading.
    fn go_on(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some((due, _)) = self.waiting.front() else {
            if let Some(pause) = self.paused.take() {
                pause.end(ctx);
            }
            return;
        };
        let wait = Duration::from_nanos(due.saturating_sub(ctx.now()));
        self.armed = ctx.schedule(wait, 0).is_some();
        if !self.armed {
            // The event loop is shutting down: no timer will release the messages.
            self.release(true, ctx);
        }
    }
}

impl Inbound for MessageLimit {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;
    const DUPLEX: bool = true;

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.release(true, ctx);
        self.go_on(ctx);
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        let now = ctx.now();
        if self.closes {
            if self.rate.try_take_one(now) {
                return ctx.fire_read(message);
            }
            let per_second = self.rate.per_second();
            let why = NetError::TooManyMessages { per_second };
            return ctx.fire_error(Failure::new(why));
        }
        let wait = self.rate.take(1, now);
        if wait == 0 && self.waiting.is_empty() {
            return ctx.fire_read(message);
        }
        self.waiting.push_back((now.saturating_add(wait), message));
        if self.paused.is_none() {
            self.paused = Some(Pause::begin(ctx));
        }
        if !self.armed {
            self.go_on(ctx);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if self.waiting.is_empty() || !ends_input(&event) {
            return ctx.fire_event(event);
        }
        self.ends.push(event);
    }

    fn timer(&mut self, _: u64, ctx: &mut InboundContext<'_, Self>) {
        self.armed = false;
        self.release(false, ctx);
        self.go_on(ctx);
    }
}

impl Outbound for MessageLimit {
    type Take = AnyMessage;
    type Write = AnyMessage;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(message);
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        match &mut self.paused {
            None => ctx.read(),
            Some(pause) => pause.ask(ctx),
        }
    }
}
