//! Sockets of the crates `mio` and `socket2`, for all systems.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::socket::Adopted;

pub(crate) use mio::net::{TcpListener, TcpStream, UdpSocket};
#[cfg(unix)]
pub(crate) use mio::net::{UnixListener, UnixStream};

/// Begins to connect to `address`.
pub(crate) fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address)
}

/// Begins to connect to the Unix socket at `path`.
#[cfg(unix)]
pub(crate) fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Opens a UDP socket.
pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(address)
}

/// Opens a listening socket. It shares its port with others if `shared` is `true`.
pub(crate) fn listen_tcp(
    address: SocketAddr,
    shared: bool,
    backlog: i32,
) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if cfg!(unix) {
        // A restarted server need not wait for the connections of the one before. On Windows
        // that is so anyway, and the option would let another process take the port.
        socket.set_reuse_address(true)?;
    }
    if shared {
        share_port(&socket)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Allows several sockets on one port.
#[cfg(unix)]
fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// Allows several sockets on one port, which Windows does not support.
#[cfg(windows)]
fn share_port(_socket: &Socket) -> io::Result<()> {
    let what = "Windows has no ports that several listeners share; use one listener";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

/// Accepts a connection.
pub(crate) fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    listener.accept()
}

/// Accepts a connection.
#[cfg(unix)]
pub(crate) fn accept_unix(listener: &UnixListener) -> io::Result<UnixStream> {
    listener.accept().map(|(stream, _)| stream)
}

macro_rules! adopted {
    ($($socket:ty = $std:ty),*) => {$(
        impl Adopted for $socket {
            type Std = $std;

            fn adopt(socket: $std) -> io::Result<Self> {
                socket.set_nonblocking(true)?;
                Ok(Self::from_std(socket))
            }

            fn into_std(self) -> $std {
                self.into()
            }
        }
    )*};
}

adopted!(
    TcpListener = std::net::TcpListener,
    TcpStream = std::net::TcpStream,
    UdpSocket = std::net::UdpSocket
);
#[cfg(unix)]
adopted!(
    UnixListener = std::os::unix::net::UnixListener,
    UnixStream = std::os::unix::net::UnixStream
);

/// The options of a socket.
pub(crate) struct SocketOptions<'a>(SockRef<'a>);

impl<'a> SocketOptions<'a> {
    #[cfg(unix)]
    pub(crate) fn of(socket: &'a impl std::os::fd::AsFd) -> Self {
        Self(SockRef::from(socket))
    }

    #[cfg(windows)]
    pub(crate) fn of(socket: &'a impl std::os::windows::io::AsSocket) -> Self {
        Self(SockRef::from(socket))
    }

    /// Sends small messages at once.
    pub(crate) fn set_no_delay(&self) -> io::Result<()> {
        self.0.set_tcp_nodelay(true)
    }

    /// Limits the time in which the peer takes sent bytes; zero means no limit.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn set_user_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.0.set_tcp_user_timeout(Some(timeout))
    }

    /// Returns how many bytes the peer has not acknowledged. Only for TCP, and only on Linux.
    #[cfg(target_os = "linux")]
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        // `TIOCOUTQ`: the call has the same number for sockets as for terminals.
        const UNSENT: rustix::ioctl::Opcode = 0x5411;
        // SAFETY: for this number the kernel writes an `int`.
        let unsent = unsafe { rustix::ioctl::Getter::<UNSENT, std::ffi::c_int>::new() };
        // SAFETY: the call has no effect but the one above.
        let count = unsafe { rustix::ioctl::ioctl(&*self.0, unsent) };
        u64::try_from(count.ok()?).ok()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        None
    }

    /// Probes an idle peer.
    pub(crate) fn set_keep_alive(&self) -> io::Result<()> {
        self.0.set_keepalive(true)
    }

    /// Sets for how long a close waits for bytes to be sent, in seconds; zero drops them.
    pub(crate) fn set_linger(&self, linger: Duration) -> io::Result<()> {
        self.0.set_linger(Some(linger))
    }

    pub(crate) fn set_send_buffer(&self, size: usize) -> io::Result<()> {
        self.0.set_send_buffer_size(size)
    }

    pub(crate) fn set_receive_buffer(&self, size: usize) -> io::Result<()> {
        self.0.set_recv_buffer_size(size)
    }
}
