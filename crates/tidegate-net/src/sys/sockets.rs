//! Sockets of the crates `mio` and `socket2`, for all systems.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use super::socket::Adopted;

pub(crate) use mio::net::{TcpListener, TcpStream, UdpSocket};
#[cfg(unix)]
pub(crate) use mio::net::{UnixListener, UnixStream};

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

/// Returns how many bytes the peer has not acknowledged. Only for TCP, and only on Linux.
#[cfg(target_os = "linux")]
pub(crate) fn unacknowledged(socket: &TcpStream) -> Option<u64> {
    // `TIOCOUTQ`: the call has the same number for sockets as for terminals.
    const UNSENT: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: for this number the kernel writes an `int`.
    let unsent = unsafe { rustix::ioctl::Getter::<UNSENT, std::ffi::c_int>::new() };
    // SAFETY: the call has no effect but the one above.
    let count = unsafe { rustix::ioctl::ioctl(socket, unsent) };
    u64::try_from(count.ok()?).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn unacknowledged(_: &TcpStream) -> Option<u64> {
    None
}
