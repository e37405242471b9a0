//! Received bytes that are kept outside of the handlers, and that any thread may release.

use super::handle::Channel;

/// Counts received bytes of a channel that another crate of the workspace keeps, as
/// [`HandlerContext::hold_input`](crate::HandlerContext::hold_input) does, from any thread. Does
/// nothing once the channel is closed.
#[derive(Clone, Debug)]
pub struct HeldInput(Channel);

impl HeldInput {
    /// Returns a counter of the bytes of `channel`. At first it counts none.
    pub fn of(channel: &Channel) -> Self {
        Self(channel.clone())
    }

    /// Counts `bytes`. If they exceed the memory limit of the server, connections are closed.
    pub fn add(&self, bytes: usize) {
        self.0.shared().hold_input(bytes);
    }

    /// Stops counting `bytes`.
    pub fn remove(&self, bytes: usize) {
        self.0.shared().release_input(bytes);
    }
}
