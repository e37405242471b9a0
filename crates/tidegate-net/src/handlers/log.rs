//! Logs everything that passes, with a hex dump of the bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use crate::channel::FileRange;
use crate::message::Nothing;
use crate::pipeline::{HandlerContext, Inbound, InboundContext, Outbound, OutboundContext};

/// Describes everything that passes this position of a byte pipeline to a user's function. Each
/// text begins with the address of the peer, if it has one.
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::Logging;
///
/// let (sender, lines) = mpsc::channel();
/// let log = Logging::new(move |line| sender.send(line.to_owned()).unwrap_or_default());
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("log", log))?;
/// channel.receive("hi\n");
/// assert_eq!(lines.recv()?, "active");
/// let dump = lines.recv()?;
/// assert!(dump.contains("00000000  68 69 0a"));
/// assert!(dump.ends_with("|hi.|\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Logging {
    write_line: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Logging {
    /// Creates a handler that calls `write_line` on the channel's event loop, so `write_line` must
    /// not block.
    pub fn new(write_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            write_line: Arc::new(write_line),
        }
    }

    fn log(&self, what: &str, ctx: &HandlerContext<'_>) {
        match ctx.peer().name() {
            Some(peer) => (self.write_line)(&format!("{peer} {what}")),
            None => (self.write_line)(what),
        }
    }

    fn dump(&self, what: &str, bytes: &[u8], ctx: &HandlerContext<'_>) {
        let size = bytes.len();
        self.log(&format!("{what} {size} bytes\n{}", hex_dump(bytes)), ctx);
    }
}

impl std::fmt::Debug for Logging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logging")
    }
}

/// Formats bytes as lines of sixteen, in hex and as text.
fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(16).enumerate() {
        let mut hex = String::new();
        let mut plain = String::new();
        for byte in line {
            let _ = write!(hex, "{byte:02x} ");
            let shown = byte.is_ascii_graphic() || *byte == b' ';
            plain.push(if shown { char::from(*byte) } else { '.' });
        }
        let _ = writeln!(text, "{:08x}  {hex:48} |{plain}|", at * 16);
    }
    text
}

impl Inbound for Logging {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("active", ctx);
        ctx.fire_active();
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log("inactive", ctx);
        ctx.fire_inactive();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.dump("read", &bytes, ctx);
        ctx.fire_read(bytes);
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        self.log(if writable { "writable" } else { "not writable" }, ctx);
        ctx.fire_writability(writable);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.log(&format!("error: {why}"), ctx);
        ctx.fire_error(why);
    }
}

impl Outbound for Logging {
    type Take = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        self.dump("write", &bytes, ctx);
        ctx.write(bytes);
    }

    fn write_file(&mut self, range: FileRange, ctx: &mut OutboundContext<'_, Self>) {
        self.log(&format!("write {} bytes of a file", range.len()), ctx);
        ctx.write_file(range);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.log("flush", ctx);
        ctx.flush();
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.log("close", ctx);
        ctx.close();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.log("close when flushed", ctx);
        ctx.close_when_flushed();
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.log("shut output", ctx);
        ctx.shutdown_output();
    }
}
