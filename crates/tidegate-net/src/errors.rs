//! Errors of channels.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_promise::Failure;

/// An error of a channel, beyond those of the operating system.
///
/// ```
/// use tidegate_net::NetError;
///
/// let why = NetError::Overfull { size: 5_000_000, pending: 12_000_000, cap: 16_777_216 };
/// assert!(why.to_string().contains("16777216"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum NetError {
    /// The channel is closed; with the cause, if there was one.
    Closed(Option<Failure>),
    /// The channel's sending half is closed: data written after its end cannot be sent.
    OutputShut,
    /// A write would exceed the hard cap.
    Overfull {
        /// The counted size of the refused write.
        size: usize,
        /// The pending size.
        pending: usize,
        /// The cap.
        cap: usize,
    },
    /// Too many datagrams wait to be sent: another one is not accepted.
    ManyDatagrams,
    /// A datagram was not sent. An error event of this kind that no handler takes does not close
    /// the channel: the next datagram may be sent.
    DatagramLost {
        /// The receiver.
        peer: SocketAddr,
        /// Its length in bytes.
        size: usize,
        /// The error of the operating system, [`NetError::Overfull`] or
        /// [`NetError::ManyDatagrams`].
        why: Failure,
    },
    /// Receiving a datagram failed. Does not close the channel either.
    ReceiveFailed(Failure),
    /// A message reached a handler that does not take it.
    Misfit {
        /// The name of the handler.
        handler: String,
        /// The type that it takes.
        takes: &'static str,
        /// `true` if the message was plain bytes.
        bytes: bool,
    },
    /// A connect took too long.
    ConnectTimeout {
        /// The address.
        to: String,
        /// The time limit.
        after: Duration,
    },
    /// A connection, a socket or a server could not be opened: its loop has ended or refused the
    /// work, or it was closed before.
    NotOpened {
        /// What was tried.
        what: String,
        /// What happened.
        why: String,
    },
    /// Nothing was received or sent for too long.
    Idle(Duration),
    /// Data waits to be sent, and none could be sent for too long.
    WriteTimeout(Duration),
    /// A frame is longer than allowed.
    FrameTooLong {
        /// Its length, as far as it is known.
        length: u64,
        /// The maximum length.
        most: usize,
    },
    /// The bytes violate the protocol.
    Garbage(String),
    /// A name resolved to no address.
    NoAddress(String),
    /// A name could not be resolved.
    NoName {
        /// The name.
        name: String,
        /// The error of the operating system.
        why: String,
    },
    /// Resolving a name took too long.
    ResolveTimeout {
        /// The name.
        name: String,
        /// The time limit.
        after: Duration,
    },
    /// The text is neither an address nor a name with a port.
    BadAddress(String),
    /// The loops of a group have no I/O.
    NoIo,
    /// The writability flag does not exist: flags are numbered from 1 to 31.
    BadFlag(u8),
    /// The channel is on its loop: it can be registered again only after it was taken off.
    Registered,
    /// The channel is not connected yet.
    NotConnected,
    /// The server accepts no more connections.
    Draining,
    /// The handlers trigger each other without end, so that the work for one event would never be
    /// finished.
    Endless,
    /// The channel was to be closed after everything written before, which could not be sent in
    /// time.
    CloseTimeout(Duration),
    /// The executor of a handler refuses its work.
    Refused {
        /// The executor's name.
        executor: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(None) => f.write_str("the channel is closed"),
            Self::Closed(Some(why)) => write!(f, "the channel is closed: {why}"),
            Self::OutputShut => f.write_str("the sending half of the channel is closed"),
            Self::Overfull { size, pending, cap } => write!(
                f,
                "a write of {size} bytes is refused: {pending} bytes wait to be sent and the cap is \
                 {cap}; wait until the channel is writable, write less at once, or raise the cap"
            ),
            Self::ManyDatagrams => {
                f.write_str("too many datagrams wait to be sent; flush them before writing more")
            }
            Self::DatagramLost { peer, size, why } => write!(
                f,
                "a datagram of {size} bytes to {peer} was not sent: {why}"
            ),
            Self::ReceiveFailed(why) => write!(f, "a datagram could not be received: {why}"),
            Self::Misfit {
                handler,
                takes,
                bytes,
            } => {
                let what = if *bytes {
                    "bytes"
                } else {
                    "a message of another type"
                };
                write!(f, "`{handler}` takes {takes}, and got {what}")
            }
            Self::Idle(after) => write!(f, "nothing happened for {after:?}"),
            Self::WriteTimeout(after) => write!(
                f,
                "nothing could be sent for {after:?}: the peer does not read"
            ),
            Self::FrameTooLong { length, most } => {
                write!(
                    f,
                    "a frame of {length} bytes, and at most {most} are allowed"
                )
            }
            Self::Garbage(what) => write!(f, "not what the protocol says: {what}"),
            Self::NoIo => f.write_str("these loops have no I/O; make the group with `net::pinned`"),
            Self::BadFlag(flag) => {
                write!(f, "there is no writability flag {flag}; they are 1 to 31")
            }
            Self::Refused { executor, why } => {
                write!(f, "`{executor}` refuses the work of its handler: {why}")
            }
            Self::Registered => {
                f.write_str("the channel is on its loop; take it off with `deregister` first")
            }
            Self::NotConnected => f.write_str("the channel is not connected yet"),
            Self::Draining => f.write_str("the server takes no more connections"),
            Self::Endless | Self::CloseTimeout(_) => self.fmt_cut(f),
            Self::ConnectTimeout { .. }
            | Self::NotOpened { .. }
            | Self::NoAddress(_)
            | Self::NoName { .. }
            | Self::ResolveTimeout { .. }
            | Self::BadAddress(_) => self.fmt_opening(f),
        }
    }
}

impl NetError {
    /// Formats the errors for which the library itself closes a channel.
    fn fmt_cut(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CloseTimeout(after) => write!(
                f,
                "the channel was to be closed when everything was sent, which took longer than \
                 {after:?}: the peer does not read"
            ),
            _ => f.write_str(
                "the handlers of the channel answer each other without end; look for one that writes, \
                 flushes or changes the chain whenever another one fires an event",
            ),
        }
    }

    /// Formats the errors that occur while something is opened.
    fn fmt_opening(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectTimeout { to, after } => {
                write!(f, "cannot connect to {to}: no connection after {after:?}")
            }
            Self::NotOpened { what, why } => write!(f, "{what}: {why}"),
            Self::NoAddress(name) => write!(f, "`{name}` has no address"),
            Self::NoName { name, why } => write!(f, "`{name}` cannot be resolved: {why}"),
            Self::ResolveTimeout { name, after } => {
                write!(f, "`{name}` was not resolved within {after:?}")
            }
            Self::BadAddress(text) => write!(
                f,
                "`{text}` is no address; write `host:port`, for example `127.0.0.1:80`"
            ),
            // The other variants are formatted by the callers.
            _ => Ok(()),
        }
    }

    /// Returns `true` if this error closes the channel when no handler takes it.
    pub(crate) fn is_fatal(&self) -> bool {
        !matches!(self, Self::DatagramLost { .. } | Self::ReceiveFailed(_))
    }
}

tidegate_core::debug_as_display!(NetError);

impl Error for NetError {}

impl From<NetError> for Failure {
    fn from(why: NetError) -> Self {
        Self::new(why)
    }
}

/// Adds what was tried to `why`: "cannot connect to 127.0.0.1:80: Connection refused". Keeps the
/// kind.
pub(crate) fn tried(what: impl Into<String>, why: io::Error) -> io::Error {
    let what = what.into();
    io::Error::new(why.kind(), IoErrorContext { what, why })
}

/// An error of the operating system, with what was tried.
struct IoErrorContext {
    what: String,
    why: io::Error,
}

impl fmt::Display for IoErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl fmt::Debug for IoErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for IoErrorContext {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

/// Returns a copy of the error, since [`io::Error`] cannot be cloned.
pub(crate) fn clone_io_error(why: &io::Error) -> io::Error {
    match why.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(why.kind(), why.to_string()),
    }
}
