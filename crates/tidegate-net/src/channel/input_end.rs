//! The event that the input of a channel has ended and that the channel closes for it.

use super::event::{InputShutdown, UserEvent};
use super::handle::Channel;

/// The event that the peer has ended its stream, and that the channel closes for it. The channel
/// fires it only if a handler requested it, and closes after it. A `Tls` handler fires it for a
/// `close_notify`.
///
/// The event of a `close_notify` closes the channel when it is dropped: when it has passed the last
/// handler, or when a handler has kept it from the next ones. A handler that holds messages back
/// keeps it until it has passed them on.
#[derive(Debug)]
pub(crate) struct InputEnd(Option<Channel>);

impl InputEnd {
    /// Creates the event of a channel that closes by itself.
    pub(super) fn of_socket() -> Self {
        Self(None)
    }

    /// Creates an event that closes `channel` when it is dropped, once everything is sent. The close
    /// goes through all handlers, which may be about to send a response.
    #[cfg(feature = "tls")]
    pub(crate) fn closing(channel: Channel) -> Self {
        Self(Some(channel))
    }
}

impl Drop for InputEnd {
    fn drop(&mut self) {
        if let Some(channel) = self.0.take() {
            drop(channel.close_when_flushed());
        }
    }
}

/// Returns `true` if `event` says that no more input comes. A handler that holds messages back
/// passes it on after them.
#[cfg(feature = "handlers")]
pub(crate) fn ends_input(event: &UserEvent) -> bool {
    event.downcast_ref::<InputShutdown>().is_some() || event.downcast_ref::<InputEnd>().is_some()
}
