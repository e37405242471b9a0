//! What can go wrong with a channel, as values.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_promise::Failure;

/// What went wrong with a channel, beyond what the operating system says.
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
    /// The channel is closed; with the cause, where there was one.
    Closed(Option<Failure>),
    /// The channel's sending half is closed: what was written after its end cannot be sent.
    OutputShut,
    /// More would wait to be sent than the hard cap allows.
    Overfull {
        /// What the write counts for that was refused.
        size: usize,
        /// What waits.
        pending: usize,
        /// The cap.
        cap: usize,
    },
    /// So many datagrams wait to be sent that another one is not taken.
    ManyDatagrams,
    /// A datagram was not sent; says why. An error event of this kind that no handler takes does not
    /// close the channel: the next datagram may be sent.
    DatagramLost {
        /// Where it was to go.
        peer: SocketAddr,
        /// Its length in bytes.
        size: usize,
        /// What the operating system says, [`NetError::Overfull`] or [`NetError::ManyDatagrams`].
        why: Failure,
    },
    /// Receiving a datagram failed; says why. Does not close the channel either.
    ReceiveFailed(Failure),
    /// A message came to a handler that does not take it.
    Misfit {
        /// The handler.
        handler: String,
        /// What it takes.
        takes: &'static str,
        /// Whether the message was plain bytes.
        bytes: bool,
    },
    /// A connect took too long.
    ConnectTimeout {
        /// Where it was to go.
        to: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// A connection, a socket or a server could not be opened: its loop has ended or took no more
    /// work, or it was closed before.
    NotOpened {
        /// What was tried.
        what: String,
        /// What happened.
        why: String,
    },
    /// Nothing came or went for too long.
    Idle(Duration),
    /// Something waits to be sent, and nothing could be for too long.
    WriteTimeout(Duration),
    /// A frame is longer than allowed.
    FrameTooLong {
        /// How long it is, as far as is known.
        length: u64,
        /// How long it may be.
        most: usize,
    },
    /// The bytes are not what the protocol says.
    Garbage(String),
    /// A name resolved to no address.
    NoAddress(String),
    /// A name could not be resolved.
    NoName {
        /// The name.
        name: String,
        /// What the operating system says.
        why: String,
    },
    /// Resolving a name took too long.
    ResolveTimeout {
        /// The name.
        name: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// Neither an address nor a name with a port.
    BadAddress(String),
    /// The loops of a group have no I/O.
    NoIo,
    /// A writability flag that does not exist: they are numbered from 1 to 31.
    BadFlag(u8),
    /// The channel is on its loop: it can be registered again after it was taken off.
    Registered,
    /// The channel is not connected yet.
    NotConnected,
    /// The server takes no more connections.
    Draining,
    /// The handlers answer each other without end, so that what follows from one event would never be
    /// done.
    Endless,
    /// The channel was to be closed behind what was written, and that could not be sent in time.
    CloseTimeout(Duration),
    /// The executor of a handler does not take its work.
    Refused {
        /// The executor's name.
        executor: String,
        /// What it said.
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
    /// Why the library itself has cut a channel.
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

    /// Shows what went wrong while something was being opened.
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
            // Shown where the others are.
            _ => Ok(()),
        }
    }

    /// Returns `true` if a channel is closed by such an error when no handler takes it.
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

/// `why` with what was tried: "cannot connect to 127.0.0.1:80: Connection refused". It keeps its kind.
pub(crate) fn tried(what: impl Into<String>, why: io::Error) -> io::Error {
    let what = what.into();
    io::Error::new(why.kind(), Tried { what, why })
}

/// An error of the operating system, with its subject.
struct Tried {
    what: String,
    why: io::Error,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl fmt::Debug for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Tried {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

/// A message that was not written because too much waits to be sent, or the channel is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WriteRefused<M>(pub M);

impl<M> fmt::Debug for WriteRefused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M> fmt::Display for WriteRefused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "too much waits to be sent, or the channel is closed; wait until it is writable",
        )
    }
}

impl<M> Error for WriteRefused<M> {}

/// Returns the same error once more, where [`io::Error`] cannot be cloned.
pub(crate) fn clone_io_error(why: &io::Error) -> io::Error {
    match why.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(why.kind(), why.to_string()),
    }
}
