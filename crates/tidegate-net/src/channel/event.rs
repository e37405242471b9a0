//! What a channel tells its handlers, and what handlers ask of their channel: the words that the
//! channel and its pipeline share.

use std::any::Any;
use std::fmt;

use tidegate_promise::Failure;

/// Events that a handler may care about, as bits.
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

/// An event of the user's own, on its way from head to tail.
///
/// ```
/// use tidegate_net::UserEvent;
///
/// let event = UserEvent::new("handshake done");
/// assert_eq!(event.is::<&str>(), Some(&"handshake done"));
/// assert_eq!(event.is::<u32>(), None);
/// ```
pub struct UserEvent(Box<dyn Any + Send>);

impl UserEvent {
    /// An event that carries `what`.
    pub fn new(what: impl Any + Send) -> Self {
        Self(Box::new(what))
    }

    /// What it carries, if that is a `T`.
    pub fn is<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Takes out what it carries, or gives itself back.
    ///
    /// # Errors
    ///
    /// The event, if it carries something else.
    pub fn downcast<T: 'static>(self) -> Result<T, Self> {
        self.0.downcast().map(|own| *own).map_err(Self)
    }
}

impl fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserEvent")
    }
}

/// The peer writes no more, and the channel stays open for what is left to say: an event for
/// channels that allow half-closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShutdown;

/// The channel was taken off its loop: an event. See [`Channel::deregister`](crate::Channel::deregister).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deregistered;

/// The channel is on its loop again: an event. See [`Channel::register`](crate::Channel::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered;

/// The peer writes no more, and the channel is about to be closed for it: an event for handlers
/// that asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputEnd;

/// An event on its way in.
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

/// An operation on its way out that is not a write.
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

/// What happens to one handler alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Added,
    Removed,
    Timer(u64),
}
