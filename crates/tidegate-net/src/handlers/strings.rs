//! Converts between bytes and text.

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use crate::errors::NetError;
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// Converts frames to text, and text to bytes. Invalid UTF-8 causes an error event.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::Strings;
///
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("strings", Strings::utf8()))?;
/// channel.write_inbound(Bytes::from("grüezi"));
/// assert_eq!(channel.read_inbound::<String>().unwrap(), "grüezi");
/// channel.write_outbound(String::from("adieu"));
/// assert_eq!(channel.sent(), "adieu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Strings {
    lossy: bool,
}

impl Strings {
    /// Creates a handler that refuses invalid UTF-8.
    pub fn utf8() -> Self {
        Self { lossy: false }
    }

    /// Creates a handler that substitutes the replacement character for invalid UTF-8.
    pub fn lossy() -> Self {
        Self { lossy: true }
    }
}

impl Inbound for Strings {
    type In = Bytes;
    type Out = String;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.lossy {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return ctx.fire_read(text);
        }
        match String::from_utf8(bytes.into()) {
            Ok(text) => ctx.fire_read(text),
            Err(why) => {
                let why = NetError::ProtocolViolation(format!("not UTF-8: {}", why.utf8_error()));
                ctx.fire_error(Failure::new(why));
            }
        }
    }
}

impl Outbound for Strings {
    type Take = String;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, text: String, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(text);
    }
}
