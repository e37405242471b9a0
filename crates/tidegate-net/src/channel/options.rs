//! How a channel behaves: what can be set before it exists.

use std::time::Duration;

use super::read_size::ReadSize;
use super::write_queue::{WRITE_SPIN, WaterMarks};

/// Reads of one channel before others have their turn, when nothing else is said.
pub const DEFAULT_READS_PER_TURN: u32 = 16;
/// How long a connect may take, when nothing else is said.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long sending the rest may take before a channel is closed without, when nothing else is said.
pub const DEFAULT_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// How a channel behaves.
///
/// ```
/// use tidegate_net::ChannelOptions;
///
/// let options = ChannelOptions { half_closure: true, ..ChannelOptions::default() };
/// assert!(options.auto_read && options.no_delay);
/// ```
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// Reads on its own; else only when asked.
    pub auto_read: bool,
    /// When the peer writes no more, the channel stays open and an
    /// [`InputShutdown`](crate::InputShutdown) event tells the handlers.
    pub half_closure: bool,
    /// How much may wait to be sent.
    pub marks: WaterMarks,
    /// How much each read is offered.
    pub read_size: ReadSize,
    /// Reads in one turn before others have theirs; at least one.
    pub reads_per_turn: u32,
    /// Writes in one flush before others have their turn; at least one.
    pub write_spin: usize,
    /// Sends small messages at once.
    pub no_delay: bool,
    /// Probes an idle peer.
    pub keep_alive: bool,
    /// What closing does with bytes that the operating system has not sent: `Some(0)` drops
    /// them and resets the connection.
    pub linger: Option<Duration>,
    /// The size of the operating system's send buffer.
    pub send_buffer: Option<usize>,
    /// The size of the operating system's receive buffer.
    pub receive_buffer: Option<usize>,
    /// How long a connect may take; zero means as long as it likes.
    pub connect_timeout: Duration,
    /// How long a channel that is to be [closed when everything is
    /// sent](crate::Channel::close_when_flushed) may take to send it; zero means as long as it likes.
    pub close_timeout: Duration,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            auto_read: true,
            half_closure: false,
            marks: WaterMarks::default(),
            read_size: ReadSize::default(),
            reads_per_turn: DEFAULT_READS_PER_TURN,
            write_spin: WRITE_SPIN,
            no_delay: true,
            keep_alive: false,
            linger: None,
            send_buffer: None,
            receive_buffer: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            close_timeout: DEFAULT_CLOSE_TIMEOUT,
        }
    }
}

impl ChannelOptions {
    /// Applies what the operating system has to know. What it does not know is left out: the
    /// channel works without.
    pub(crate) fn apply(&self, socket: &socket2::SockRef<'_>, tcp: bool) {
        if tcp && self.no_delay {
            let _ = socket.set_tcp_nodelay(true);
        }
        if self.keep_alive {
            let _ = socket.set_keepalive(true);
        }
        if self.linger.is_some() {
            let _ = socket.set_linger(self.linger);
        }
        if let Some(size) = self.send_buffer {
            let _ = socket.set_send_buffer_size(size);
        }
        if let Some(size) = self.receive_buffer {
            let _ = socket.set_recv_buffer_size(size);
        }
    }
}
