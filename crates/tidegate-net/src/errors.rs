//! Errors of channels and of user-defined sources.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_promise::Failure;

use crate::sys::is_out_of_descriptors;

/// An error of a channel or of a user-defined source, beyond those of the operating system.
///
/// ```
/// use tidegate_net::NetError;
///
/// let why = NetError::WriteQueueFull { size: 5_000_000, pending: 12_000_000, cap: 16_777_216 };
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
    WriteQueueFull {
        /// The counted size of the refused write.
        size: usize,
        /// The pending size.
        pending: usize,
        /// The cap.
        cap: usize,
    },
    /// An earlier write was refused and had no completion to fail. The error event that the handlers got
    /// for it has the reason.
    WriteLost,
    /// A file that was being sent is shorter than the range that was written.
    FileTruncated {
        /// How many bytes of the range are missing.
        missing: u64,
    },
    /// The connections of the server hold too much memory, and this one holds most.
    ServerMemoryFull {
        /// The counted size of what this connection held.
        size: usize,
        /// The cap.
        cap: usize,
    },
    /// Too many datagrams wait to be sent: another one is not accepted.
    TooManyDatagrams,
    /// A datagram was not sent. An error event of this kind that no handler takes does not close
    /// the channel: the next datagram may be sent.
    DatagramLost {
        /// The receiver.
        peer: SocketAddr,
        /// Its length in bytes.
        size: usize,
        /// The error of the operating system, [`NetError::WriteQueueFull`] or
        /// [`NetError::TooManyDatagrams`].
        why: Failure,
    },
    /// Receiving a datagram failed. Does not close the channel either.
    ReceiveFailed(Failure),
    /// A message reached a handler that does not take it.
    TypeMismatch {
        /// The name of the handler.
        handler: String,
        /// The type that it takes.
        takes: &'static str,
        /// What it got: bytes, text, or a message of another type.
        got: &'static str,
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
    IdleTimeout(Duration),
    /// Data waits to be sent, and none could be sent for too long.
    WriteTimeout(Duration),
    /// A frame is longer than allowed.
    FrameTooLong {
        /// Its length, as far as it is known.
        length: u64,
        /// The maximum length.
        max: usize,
    },
    /// A frame took too long, from its first byte.
    FrameTimeout(Duration),
    /// The peer sends more messages than allowed.
    TooManyMessages {
        /// The limit.
        per_second: u64,
    },
    /// The bytes of the peer violate the protocol.
    ProtocolViolation(String),
    /// A name resolved to no address.
    NoAddress(String),
    /// A name could not be resolved.
    ResolveFailed {
        /// The name.
        name: String,
        /// The error of the operating system, or the reason why it was not called.
        why: Failure,
    },
    /// Resolving a name took too long.
    ResolveTimeout {
        /// The name.
        name: String,
        /// The time limit.
        after: Duration,
    },
    /// The text is neither an address nor a name with a port.
    InvalidAddress(String),
    /// The writability flag does not exist: flags are numbered from 1 to 31.
    InvalidFlag(u8),
    /// The channel is on its loop: it can be registered again only after it was taken off.
    AlreadyRegistered,
    /// The socket of a channel cannot be handed over. Contains the reason.
    NotReleased(&'static str),
    /// The channel is not connected yet.
    NotConnected,
    /// The handlers trigger each other without end, so that the work for one event would never be
    /// finished.
    HandlerLoop,
    /// The channel was to be closed after everything written before, which could not be sent in
    /// time.
    CloseTimeout(Duration),
    /// The event loop has ended: it takes no more sources and updates.
    LoopEnded {
        /// The name of the loop.
        event_loop: String,
    },
    /// The source is closed: by its handle, by an update, by its own panic, or with its loop.
    SourceClosed {
        /// The name of the source.
        source_name: String,
    },
    /// The poller refuses to watch the descriptor of a source.
    SourceRefused {
        /// The name of the source.
        source_name: String,
        /// The error of the operating system.
        why: Failure,
    },
    /// A callback of a source panicked, so the source was closed.
    SourcePanicked {
        /// The name of the source.
        source_name: String,
        /// The message of the panic.
        message: String,
    },
    /// An update of an event loop panicked.
    UpdatePanicked {
        /// The name of the loop.
        event_loop: String,
        /// The message of the panic.
        message: String,
    },
    /// Too many updates wait for an event loop.
    TooManyUpdates {
        /// The name of the loop.
        event_loop: String,
        /// The highest number of updates that may wait.
        max: usize,
    },
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_sending(f)
    }
}

/// The sentences. Each function has those of its variants, and passes the others on to the next.
impl NetError {
    /// Writes the sentence of what a channel sends, and of its end.
    fn fmt_sending(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(why) => write!(f, "the channel is closed{}", because(why.as_ref())),
            Self::OutputShut => f.write_str(
                "the sending half of the channel is closed; write before `shutdown_output`",
            ),
            Self::WriteQueueFull { size, pending, cap } => write!(
                f,
                "the write queue of the channel is full: a write of {size} bytes is refused, \
                 {pending} bytes wait to be sent and the cap is {cap}; wait until the \
                 channel is writable, write less at once, or raise the cap"
            ),
            Self::WriteLost => f.write_str(
                "an earlier write was refused; write with a completion to learn which one, and why",
            ),
            Self::FileTruncated { missing } => write!(
                f,
                "the file that was being sent ended {missing} bytes before the end of its \
                 range; replace files that are served, and do not truncate them"
            ),
            Self::ServerMemoryFull { size, cap } => write!(
                f,
                "the connections of the server hold more than {cap} bytes, and this one was \
                 closed because it held {size}, more than the others that are left; let its \
                 peer read faster, write less, or raise `max_memory`"
            ),
            Self::TooManyDatagrams => {
                f.write_str("too many datagrams wait to be sent; flush them before writing more")
            }
            Self::DatagramLost { peer, size, why } => write!(
                f,
                "a datagram of {size} bytes to {peer} was not sent: {why}"
            ),
            Self::ReceiveFailed(why) => write!(f, "a datagram could not be received: {why}"),
            Self::TypeMismatch {
                handler,
                takes,
                got,
            } => write!(
                f,
                "`{handler}` takes {takes}, and got {got}; write a message of the type that \
                 it takes"
            ),
            _ => self.fmt_peer(f),
        }
    }

    /// Writes the sentence about the peer and its address.
    fn fmt_peer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectTimeout { to, after } => write!(
                f,
                "cannot connect to {to}: no connection after {after:?}; check the address, \
                 or raise `ChannelOptions::connect_timeout`"
            ),
            Self::NotOpened { what, why } => write!(f, "{what}: {why}"),
            Self::IdleTimeout(what) => {
                write!(f, "the connection was idle: nothing happened for {what:?}")
            }
            Self::WriteTimeout(what) => write!(
                f,
                "nothing could be sent for {what:?}: the peer does not read"
            ),
            Self::FrameTooLong { length, max } => write!(
                f,
                "a frame of {length} bytes is too long: at most {max} are allowed"
            ),
            Self::FrameTimeout(what) => write!(
                f,
                "a frame was not complete {what:?} after its first byte: the peer sends too \
                 slowly; close the connection, or raise the `timeout` of the decoder"
            ),
            Self::TooManyMessages { per_second } => write!(
                f,
                "the peer sends more than {per_second} messages per second; close the \
                 connection"
            ),
            Self::ProtocolViolation(what) => write!(f, "the peer violates the protocol: {what}"),
            Self::NoAddress(what) => write!(f, "`{what}` has no address; check the name"),
            Self::ResolveFailed { name, why } => write!(f, "`{name}` cannot be resolved: {why}"),
            Self::ResolveTimeout { name, after } => write!(
                f,
                "`{name}` was not resolved within {after:?}; check the resolver, or raise \
                 `resolve_timeout`"
            ),
            Self::InvalidAddress(what) => write!(
                f,
                "`{what}` is no address; write `host:port`, for example `127.0.0.1:80`"
            ),
            _ => self.fmt_use(f),
        }
    }

    /// Writes the sentence about channels, sources and event loops that are used wrongly or have ended.
    fn fmt_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidFlag(what) => {
                write!(f, "there is no writability flag {what}; use 1 to 31")
            }
            Self::AlreadyRegistered => {
                f.write_str("the channel is on its loop; take it off with `deregister` first")
            }
            Self::NotReleased(what) => {
                write!(f, "the socket of the channel cannot be released: {what}")
            }
            Self::NotConnected => {
                f.write_str("the channel is not connected yet; wait until the connect completes")
            }
            Self::HandlerLoop => f.write_str(
                "the handlers of the channel trigger each other without end; look for one \
                 that writes, flushes or changes the pipeline whenever another one fires an \
                 event",
            ),
            Self::CloseTimeout(what) => write!(
                f,
                "the channel was closed before everything was sent: that took longer than \
                 {what:?}, because the peer does not read"
            ),
            Self::LoopEnded { event_loop } => write!(
                f,
                "event loop `{event_loop}` has ended; use a group that runs"
            ),
            Self::SourceClosed { source_name } => write!(
                f,
                "source `{source_name}` is closed; register it again to go on"
            ),
            Self::SourceRefused { source_name, why } => write!(
                f,
                "source `{source_name}` cannot be watched: {why}; its descriptor must be \
                 open, and must not be a file on a disk"
            ),
            Self::SourcePanicked {
                source_name,
                message,
            } => write!(
                f,
                "source `{source_name}` was closed because it panicked: {message}"
            ),
            Self::UpdatePanicked {
                event_loop,
                message,
            } => write!(
                f,
                "an update of event loop `{event_loop}` panicked: {message}"
            ),
            Self::TooManyUpdates { event_loop, max } => write!(
                f,
                "event loop `{event_loop}` has {max} updates to run and takes no more; wait \
                 for some of them, and look for one that blocks"
            ),
            _ => f.write_str("another error"),
        }
    }
}

impl Error for NetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Closed(why) => why.as_ref().map(|why| why as _),
            Self::DatagramLost { why, .. } => Some(why),
            Self::ReceiveFailed(why) => Some(why),
            Self::ResolveFailed { why, .. } => Some(why),
            Self::SourceRefused { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Returns the end of a sentence with its cause, if there is one.
fn because(why: Option<&Failure>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

impl NetError {
    /// Returns `true` if an operation failed because this process or the system had no descriptor or
    /// no memory left: the peer is not the cause.
    ///
    /// ```
    /// use tidegate_net::NetError;
    /// use tidegate_promise::Failure;
    ///
    /// let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    /// assert!(!NetError::is_out_of_descriptors(&Failure::new(reset)));
    /// ```
    pub fn is_out_of_descriptors(why: &Failure) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(why);
        while let Some(why) = next {
            let system = match why.downcast_ref::<Failure>() {
                Some(why) => why.downcast_ref::<io::Error>(),
                None => why.downcast_ref(),
            };
            if system.is_some_and(is_out_of_descriptors) {
                return true;
            }
            next = why.source();
        }
        false
    }

    /// Returns `true` if this error closes the channel when no handler takes it.
    pub(crate) fn is_fatal(&self) -> bool {
        !matches!(self, Self::DatagramLost { .. } | Self::ReceiveFailed(_))
    }
}

tidegate_core::debug_as_display!(NetError);

impl From<NetError> for Failure {
    fn from(why: NetError) -> Self {
        Self::new(why)
    }
}

/// Returns `true` if an error only says that the peer has dropped the connection.
pub(crate) fn peer_has_left(why: &Failure) -> bool {
    let error = why.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        error,
        Some(io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
    )
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
        let Self { what, why } = self;
        write!(f, "{what}: {why}")
    }
}

impl Error for IoErrorContext {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

tidegate_core::debug_as_display!(IoErrorContext);

/// Returns a copy of the error, since [`io::Error`] cannot be cloned.
pub(crate) fn clone_io_error(why: &io::Error) -> io::Error {
    match why.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(why.kind(), why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    //! Each error has its cause as its source.

    use std::error::Error;

    use super::*;

    fn reset() -> Failure {
        Failure::new(io::Error::from(io::ErrorKind::ConnectionReset))
    }

    #[test]
    #[cfg(unix)]
    fn a_lack_of_descriptors_is_found_below_what_was_tried() {
        let (mfile, refused) = (24, 111);
        for (code, expected) in [(mfile, true), (refused, false)] {
            let system = || io::Error::from_raw_os_error(code);
            let tried = tried("cannot connect", system());
            let closed = NetError::Closed(Some(Failure::new(system())));
            for why in [Failure::new(system()), Failure::new(tried), closed.into()] {
                assert_eq!(NetError::is_out_of_descriptors(&why), expected, "{why}");
            }
        }
    }

    #[test]
    fn the_cause_of_an_error_is_its_source() {
        let with_cause = [
            NetError::Closed(Some(reset())),
            NetError::ReceiveFailed(reset()),
            NetError::DatagramLost {
                peer: ([127, 0, 0, 1], 80).into(),
                size: 7,
                why: reset(),
            },
            NetError::ResolveFailed {
                name: "nowhere".to_owned(),
                why: reset(),
            },
        ];
        for error in with_cause {
            let cause = error
                .source()
                .and_then(|cause| cause.downcast_ref::<Failure>());
            let cause = cause.and_then(Failure::downcast_ref::<io::Error>).unwrap();
            assert_eq!(cause.kind(), io::ErrorKind::ConnectionReset);
            assert!(error.to_string().contains(&cause.to_string()), "{error}");
        }
        assert!(NetError::Closed(None).source().is_none());
        let tried = tried("cannot connect", io::ErrorKind::ConnectionRefused.into());
        let context = tried.get_ref().unwrap();
        assert!(
            context
                .source()
                .is_some_and(|cause| cause.is::<io::Error>())
        );
    }
}
