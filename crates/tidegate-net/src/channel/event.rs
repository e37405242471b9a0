//! Events that a channel delivers to its handlers, and operations that handlers request from their
//! channel. Shared by the channel and its pipeline.

use std::any::Any;
use std::fmt;

use tidegate_promise::Failure;

/// Bits for the events and operations that a handler can handle.
pub(crate) mod mask {
    pub(crate) const READ: u16 = 1;
    pub(crate) const READ_COMPLETE: u16 = 1 << 1;
    pub(crate) const ACTIVE: u16 = 1 << 2;
    pub(crate) const INACTIVE: u16 = 1 << 3;
    pub(crate) const WRITABILITY: u16 = 1 << 4;
    pub(crate) const EVENT: u16 = 1 << 5;
    pub(crate) const ERROR: u16 = 1 << 6;
    pub(crate) const WRITE: u16 = 1 << 7;
    pub(crate) const FLUSH: u16 = 1 << 8;
    pub(crate) const CLOSE: u16 = 1 << 9;
    pub(crate) const CLOSE_WHEN_FLUSHED: u16 = 1 << 10;
    pub(crate) const SHUTDOWN: u16 = 1 << 11;
    pub(crate) const DEMAND: u16 = 1 << 12;
    pub(crate) const INBOUND: u16 = WRITE - 1;
    pub(crate) const OUTBOUND: u16 = WRITE | FLUSH | CLOSE | CLOSE_WHEN_FLUSHED | SHUTDOWN | DEMAND;
}

/// A user-defined event on its way from the head to the tail of the pipeline.
///
/// ```
/// use tidegate_net::UserEvent;
///
/// let event = UserEvent::new("handshake done");
/// assert_eq!(event.downcast_ref::<&str>(), Some(&"handshake done"));
/// assert_eq!(event.downcast_ref::<u32>(), None);
/// ```
pub struct UserEvent(Box<dyn Any + Send>);

impl UserEvent {
    /// Creates an event that carries `what`.
    pub fn new(what: impl Any + Send) -> Self {
        Self(Box::new(what))
    }

    /// Returns the content, if it is a `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Unwraps the content, or returns the event unchanged.
    ///
    /// # Errors
    ///
    /// The event, if its content has another type.
    pub fn downcast<T: 'static>(self) -> Result<T, Self> {
        self.0.downcast().map(|own| *own).map_err(Self)
    }
}

impl fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserEvent")
    }
}

/// The event that the peer has closed its sending half and the channel stays open. Only for
/// channels that allow half-closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShutdown;

/// The event that the channel was taken off its loop. See
/// [`Channel::deregister`](crate::Channel::deregister).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deregistered;

/// The event that the channel is on its loop again. See
/// [`Channel::register`](crate::Channel::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered;

/// An inbound event.
#[derive(Debug)]
pub(crate) enum InEvent {
    Active,
    Inactive,
    ReadComplete,
    Writability(bool),
    User(UserEvent),
    Error(Failure),
}

impl InEvent {
    pub(crate) fn bit(&self) -> u16 {
        match self {
            Self::Active => mask::ACTIVE,
            Self::Inactive => mask::INACTIVE,
            Self::ReadComplete => mask::READ_COMPLETE,
            Self::Writability(_) => mask::WRITABILITY,
            Self::User(_) => mask::EVENT,
            Self::Error(_) => mask::ERROR,
        }
    }
}

/// An outbound operation other than a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOp {
    Flush,
    Close,
    CloseWhenFlushed,
    ShutdownOutput,
    Read,
}

impl OutOp {
    pub(crate) fn bit(self) -> u16 {
        match self {
            Self::Flush => mask::FLUSH,
            Self::Close => mask::CLOSE,
            Self::CloseWhenFlushed => mask::CLOSE_WHEN_FLUSHED,
            Self::ShutdownOutput => mask::SHUTDOWN,
            Self::Read => mask::DEMAND,
        }
    }
}

/// An event for one handler alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerEvent {
    Added,
    Removed,
    Timer(u64),
    Deadline(u8),
}
