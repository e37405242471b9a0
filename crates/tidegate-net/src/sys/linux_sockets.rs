//! Sockets of the standard library, and the system calls that it does not offer: those of sockets
//! that do not block, of listeners that share a port, and some options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use libc::{c_int, c_uint};

use super::address::SystemAddr;
use super::call::check;
use super::socket::Adopted;

pub(crate) use std::net::{TcpListener, TcpStream, UdpSocket};
pub(crate) use std::os::unix::net::{UnixListener, UnixStream};

/// Begins to connect to `address`.
pub(crate) fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    connect(&SystemAddr::of_ip(address)).map(TcpStream::from)
}

/// Begins to connect to the Unix socket at `path`.
pub(crate) fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    connect(&SystemAddr::of_path(path)?).map(UnixStream::from)
}

fn connect(to: &SystemAddr) -> io::Result<OwnedFd> {
    let socket = open(to, libc::SOCK_NONBLOCK)?;
    let (address, length) = (to.as_ptr(), to.len());
    // SAFETY: the socket is open, and the kernel reads an address of `length` bytes.
    let begun = check(unsafe { libc::connect(socket.as_raw_fd(), address, length) });
    match begun {
        Err(why) if why.raw_os_error() != Some(libc::EINPROGRESS) => Err(why),
        _ => Ok(socket),
    }
}

/// Opens a stream socket for addresses of the kind of `address`.
fn open(address: &SystemAddr, flags: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: the call accesses no memory of ours.
    let socket = check(unsafe { libc::socket(address.family(), kind, 0) })?;
    // SAFETY: the kernel has just opened it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Opens a UDP socket.
pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(address).and_then(UdpSocket::adopt)
}

/// Opens a listening socket. It shares its port with others if `shared` is `true`.
pub(crate) fn listen_tcp(
    address: SocketAddr,
    shared: bool,
    backlog: i32,
) -> io::Result<TcpListener> {
    let address = SystemAddr::of_ip(address);
    let socket = open(&address, 0)?;
    let options = SocketOptions::of(&socket);
    // A restarted server need not wait for the connections of the one before.
    options.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &ON)?;
    if shared {
        options.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, &ON)?;
    }
    let (number, at, length) = (socket.as_raw_fd(), address.as_ptr(), address.len());
    // SAFETY: the socket is open, and the kernel reads an address of `length` bytes.
    check(unsafe { libc::bind(number, at, length) })?;
    // SAFETY: the socket is open, and the call accesses no memory of ours.
    check(unsafe { libc::listen(number, backlog) })?;
    Ok(socket.into())
}

/// Accepts a connection.
pub(crate) fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let mut peer = SystemAddr::room();
    let socket = accept(listener.as_fd(), &mut peer)?;
    Ok((socket.into(), peer.to_ip()?))
}

/// Accepts a connection.
pub(crate) fn accept_unix(listener: &UnixListener) -> io::Result<UnixStream> {
    accept(listener.as_fd(), &mut SystemAddr::room()).map(UnixStream::from)
}

/// Accepts a connection, which does not block, and writes the address of the peer to `peer`.
fn accept(listener: BorrowedFd<'_>, peer: &mut SystemAddr) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (address, length) = peer.as_mut_ptrs();
    // SAFETY: the listener is borrowed. The kernel reads the size of the room from `length`, and
    // writes no more than that to `address`.
    let socket = check(unsafe { libc::accept4(listener.as_raw_fd(), address, length, flags) })?;
    // SAFETY: the kernel has just opened it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

macro_rules! adopted {
    ($($socket:ty),*) => {$(
        impl Adopted for $socket {
            type Std = Self;

            fn adopt(socket: Self) -> io::Result<Self> {
                socket.set_nonblocking(true)?;
                Ok(socket)
            }

            fn into_std(self) -> Self {
                self
            }
        }
    )*};
}

adopted!(TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream);

/// The value of an option that is on.
const ON: c_int = 1;

/// The options of a socket.
pub(crate) struct SocketOptions<'a>(BorrowedFd<'a>);

impl<'a> SocketOptions<'a> {
    pub(crate) fn of(socket: &'a impl AsFd) -> Self {
        Self(socket.as_fd())
    }

    /// Sends small messages at once.
    pub(crate) fn set_no_delay(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON)
    }

    /// Limits the time in which the peer takes sent bytes; zero means no limit.
    pub(crate) fn set_user_timeout(&self, timeout: Duration) -> io::Result<()> {
        let millis = c_uint::try_from(timeout.as_millis()).unwrap_or(c_uint::MAX);
        self.set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &millis)
    }

    /// Returns how many bytes the peer has not acknowledged. Only for TCP.
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        let (socket, mut count) = (self.0.as_raw_fd(), 0 as c_int);
        // SAFETY: the socket is borrowed, and the kernel writes a number of this type. The call has the
        // same number for sockets as for terminals.
        check(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut count) }).ok()?;
        u64::try_from(count).ok()
    }

    /// Probes an idle peer.
    pub(crate) fn set_keep_alive(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &ON)
    }

    /// Sets for how long a close waits for bytes to be sent, in seconds; zero drops them.
    pub(crate) fn set_linger(&self, linger: Duration) -> io::Result<()> {
        let linger = libc::linger {
            l_onoff: ON,
            l_linger: c_int::try_from(linger.as_secs()).unwrap_or(c_int::MAX),
        };
        self.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger)
    }

    pub(crate) fn set_send_buffer(&self, size: usize) -> io::Result<()> {
        let size = c_int::try_from(size).unwrap_or(c_int::MAX);
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &size)
    }

    pub(crate) fn set_receive_buffer(&self, size: usize) -> io::Result<()> {
        let size = c_int::try_from(size).unwrap_or(c_int::MAX);
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &size)
    }

    fn set<T>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let (socket, length) = (self.0.as_raw_fd(), size_of::<T>() as libc::socklen_t);
        let value = (&raw const *value).cast();
        // SAFETY: the socket is borrowed, and the kernel reads `length` bytes of the value.
        check(unsafe { libc::setsockopt(socket, level, name, value, length) }).map(drop)
    }
}
