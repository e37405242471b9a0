//! Options of a channel, which are set before it exists.

use std::time::Duration;

use socket2::SockRef;

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
    /// How long the operating system waits for the peer to acknowledge or take sent bytes, before it
    /// resets the connection; `None` or zero means as long as it likes, which is minutes. The limit
    /// also holds after the channel is closed. Only TCP on Linux and Android has it.
    pub tcp_user_timeout: Option<Duration>,
    /// The size of the operating system's send buffer.
    pub send_buffer: Option<usize>,
    /// The size of the operating system's receive buffer.
    pub receive_buffer: Option<usize>,
    /// Time limit for a connect; zero means no limit.
    pub connect_timeout: Duration,
    /// Time limit for sending the rest of a channel that is to be [closed when everything is
    /// sent](crate::Channel::close_when_flushed), and for the future of a `StreamHandler` after its
    /// channel was closed; zero means no limit.
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
            tcp_user_timeout: None,
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
    /// The time that a peer which was still sending has to end, once everything is sent to it, before a
    /// channel is [closed](crate::Channel::close_when_flushed).
    pub const LINGER_TIME: Duration = Duration::from_secs(2);

    /// Applies the options of the socket. Ignores those that the operating system refuses: the
    /// channel works without them.
    pub(crate) fn apply(&self, socket: &SockRef<'_>, tcp: bool) {
        if tcp && self.no_delay {
            let _ = socket.set_tcp_nodelay(true);
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(timeout) = self.tcp_user_timeout
            && tcp
        {
            let _ = socket.set_tcp_user_timeout(Some(timeout));
        }
        if self.keep_alive {
            let _ = socket.set_keepalive(true);
        }
        if let Some(linger) = self.linger {
            let _ = socket.set_linger(Some(linger));
        }
        if let Some(size) = self.send_buffer {
            let _ = socket.set_send_buffer_size(size);
        }
        if let Some(size) = self.receive_buffer {
            let _ = socket.set_recv_buffer_size(size);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_time_for_an_acknowledgement_is_set_if_it_is_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = SockRef::from(&listener);
        let before = socket.tcp_user_timeout().unwrap();
        ChannelOptions::default().apply(&socket, true);
        assert_eq!(socket.tcp_user_timeout().unwrap(), before);
        let options = ChannelOptions {
            tcp_user_timeout: Some(Duration::from_secs(7)),
            ..ChannelOptions::default()
        };
        options.apply(&socket, false);
        assert_eq!(socket.tcp_user_timeout().unwrap(), before);
        options.apply(&socket, true);
        let set = socket.tcp_user_timeout().unwrap();
        assert_eq!(set, Some(Duration::from_secs(7)));
    }
    #[test]
    fn each_option_reaches_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = SockRef::from(&listener);
        let options = ChannelOptions {
            keep_alive: true,
            linger: Some(Duration::from_secs(3)),
            send_buffer: Some(50_000),
            receive_buffer: Some(60_000),
            ..ChannelOptions::default()
        };
        options.apply(&socket, true);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.linger().unwrap(), Some(Duration::from_secs(3)));
        // The system doubles a size, for what it needs itself.
        assert_eq!(socket.send_buffer_size().unwrap(), 100_000);
        assert_eq!(socket.recv_buffer_size().unwrap(), 120_000);
    }
}
