//! Options of a channel, which are set before it exists.

use std::time::Duration;

use super::read_size::ReadSize;
use super::write_queue::{WRITE_SPIN, WaterMarks};

/// Options of a channel.
///
/// ```
/// use tidegate_net::ChannelOptions;
///
/// let options = ChannelOptions { half_closure: true, ..ChannelOptions::default() };
/// assert!(options.auto_read && options.no_delay);
/// ```
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// Whether the channel reads on its own. If not, it reads only on request.
    pub auto_read: bool,
    /// Whether the channel stays open when the peer has closed its sending half. Its handlers then
    /// receive an [`InputShutdown`](crate::InputShutdown) event.
    pub half_closure: bool,
    /// Limits for the bytes that wait to be sent.
    pub marks: WaterMarks,
    /// How many bytes each read is offered.
    pub read_size: ReadSize,
    /// Maximum number of reads per turn, before other channels get theirs; at least one.
    pub reads_per_turn: u32,
    /// Maximum number of writes per flush, before other channels get their turn; at least one.
    pub write_spin: usize,
    /// Whether small messages are sent at once.
    pub no_delay: bool,
    /// Whether an idle peer is probed.
    pub keep_alive: bool,
    /// What closing does with bytes that the operating system has not sent: `Some(0)` drops
    /// them and resets the connection.
    pub linger: Option<Duration>,
    /// The size of the operating system's send buffer.
    pub send_buffer: Option<usize>,
    /// The size of the operating system's receive buffer.
    pub receive_buffer: Option<usize>,
    /// Time limit for a connect; zero means no limit.
    pub connect_timeout: Duration,
    /// Time limit for sending the rest of a channel that is to be [closed when everything is
    /// sent](crate::Channel::close_when_flushed); zero means no limit.
    pub close_timeout: Duration,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            auto_read: true,
            half_closure: false,
            marks: WaterMarks::default(),
            read_size: ReadSize::default(),
            reads_per_turn: Self::DEFAULT_READS_PER_TURN,
            write_spin: WRITE_SPIN,
            no_delay: true,
            keep_alive: false,
            linger: None,
            send_buffer: None,
            receive_buffer: None,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            close_timeout: Self::DEFAULT_CLOSE_TIMEOUT,
        }
    }
}

impl ChannelOptions {
    /// The default maximum number of reads per turn, before other channels get theirs.
    pub const DEFAULT_READS_PER_TURN: u32 = 16;
    /// The default time limit for a connect.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default time limit for sending the rest, before a channel is closed without it.
    pub const DEFAULT_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Applies the options of the socket. Ignores those that the operating system refuses: the
    /// channel works without them.
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
