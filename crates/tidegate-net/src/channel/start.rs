//! How a channel starts on its loop: connected, or connecting.

use tidegate_promise::{Completion, Failure};

use super::handle::Channel;
use crate::awaited::Awaited;

/// A connect in progress.
pub(crate) struct Connecting {
    pub(crate) promise: Awaited<Channel>,
    /// Ends the attempt when it fires; cancelled when the attempt has ended.
    pub(crate) timeout: Option<Completion<()>>,
}

impl Connecting {
    pub(super) fn fail(self, why: &Failure) {
        if let Some(timeout) = self.timeout {
            timeout.cancel();
        }
        self.promise.fail(why);
    }
}

/// How a channel starts on its loop.
pub(crate) enum Start {
    /// Connected.
    Open,
    /// Connecting.
    Connecting(Box<Connecting>),
}

impl Start {
    /// Fails the connect, if there is one: the channel ends before it has started.
    pub(super) fn refuse(&mut self, why: &Failure) {
        if let Self::Connecting(connecting) = std::mem::replace(self, Self::Open) {
            connecting.fail(why);
        }
    }
}
