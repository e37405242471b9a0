//! Writes of a handler to another channel of the same loop.

use std::cell::Cell;
use std::fmt;

use bytes::Bytes;

use super::context::HandlerContext;
use crate::channel::Channel;
use crate::message::Message;

impl HandlerContext<'_> {
    /// Returns another channel, to write to it directly: see [`Neighbour`]. For relays and proxies,
    /// whose two connections are on the same event loop.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tidegate_net::{Channel, Inbound, InboundContext, Nothing};
    ///
    /// /// Writes what it reads to another channel.
    /// struct Relay(Channel);
    /// impl Inbound for Relay {
    ///     type In = Bytes;
    ///     type Out = Nothing;
    ///     type Write = Nothing;
    ///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
    ///         let other = ctx.neighbour(&self.0);
    ///         other.write_and_flush(bytes);
    ///         if !other.is_writable() {
    ///             // The handler of the other channel sets it again when it is writable.
    ///             ctx.set_auto_read(false);
    ///         }
    ///     }
    ///     fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
    ///         self.0.close_when_flushed();
    ///     }
    /// }
    ///
    /// use tidegate_net::EmbeddedChannel;
    /// let mut near = EmbeddedChannel::new(|p| p)?;
    /// let other = near.channel();
    /// let mut far = EmbeddedChannel::new(|p| p.add("relay", Relay(other)))?;
    /// far.receive("hello");
    /// near.run();
    /// assert_eq!(near.sent(), "hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn neighbour<'a>(&'a self, channel: &'a Channel) -> Neighbour<'a> {
        Neighbour {
            channel,
            writable: Cell::new(None),
        }
    }
}

/// Another channel, as a handler writes to it. Created by [`HandlerContext::neighbour`].
///
/// If both channels are on the same pinned event loop, bytes go directly into the other channel's
/// write queue. They are sent when the loop has delivered the few events that it is delivering
/// together, with everything else that was written to that channel meanwhile. No handler of the
/// other channel runs before that.
///
/// In every other case the bytes take the way of [`Channel::write`], with the same result: the other
/// channel is on another event loop or a roaming one, is this channel itself, is not connected, was
/// taken off its loop, is closed or is to be closed, has a handler that takes part in writes (such
/// as TLS), would exceed its cap, or has requests of handles that wait. So water marks, cap and ends
/// apply as everywhere, and refused writes are reported as everywhere.
///
/// # Order
///
/// Everything that one handler requests from a channel takes effect in the order of its calls, no
/// matter whether it uses the [`Channel`] or its `Neighbour`. Writes of other threads come before or
/// after it, in their own order.
pub struct Neighbour<'a> {
    channel: &'a Channel,
    /// What the last operation has found, if it was direct.
    writable: Cell<Option<bool>>,
}

impl<'a> Neighbour<'a> {
    /// Returns a channel for code that has no context, and may run in a handler or a task of the same
    /// event loop. Elsewhere, the bytes take the way of [`Channel::write`].
    #[doc(hidden)]
    pub fn of(channel: &'a Channel) -> Self {
        Self {
            channel,
            writable: Cell::new(None),
        }
    }
}

impl Neighbour<'_> {
    /// Writes bytes. Does not report the outcome; nothing is sent before a flush.
    pub fn write(&self, bytes: impl Into<Bytes>) {
        if let Err(Some(bytes)) = self.write_directly(Some(bytes.into()), false) {
            self.channel.write(bytes);
        }
    }

    /// Writes bytes and sends everything written so far.
    pub fn write_and_flush(&self, bytes: impl Into<Bytes>) {
        if let Err(Some(bytes)) = self.write_directly(Some(bytes.into()), true) {
            self.channel.write_and_flush(bytes);
        }
    }

    /// Writes a message that the last outbound handler of the channel takes, and that decides by itself
    /// when to flush. It gets the message when the loop has delivered the few events that it is
    /// delivering together, and never before this method returns.
    #[doc(hidden)]
    pub fn pass<M: Message>(&self, message: M) {
        self.channel.write_in_turn(message);
    }

    /// Sends everything written so far.
    pub fn flush(&self) {
        if self.write_directly(None, true).is_err() {
            self.channel.flush();
        }
    }

    /// Returns `true` if the channel is open and not more than the high-water mark is pending,
    /// including what this handler has written.
    pub fn is_writable(&self) -> bool {
        if self.writable.get().is_none() {
            // It writes nothing, and only finds out.
            let _ = self.write_directly(None, false);
        }
        let found = self.writable.get();
        found.unwrap_or_else(|| self.channel.is_writable_or_notifies())
    }

    fn write_directly(&self, bytes: Option<Bytes>, flush: bool) -> Result<(), Option<Bytes>> {
        self.writable.set(None);
        let writable = self.channel.shared().write_directly(bytes, flush)?;
        self.writable.set(Some(writable));
        Ok(())
    }
}

impl fmt::Debug for Neighbour<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Neighbour").field(self.channel).finish()
    }
}
