//! How a channel comes to its loop: connected, or about to be.

use tidegate_promise::{Completion, Failure};

use super::handle::Channel;
use crate::awaited::Awaited;

/// A connection that is being made.
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

/// How a channel comes to its loop.
pub(crate) enum Start {
    /// Connected.
    Open,
    /// About to be.
    Connecting(Box<Connecting>),
}

impl Start {
    /// The channel ends before it has begun: whoever waits for it hears why.
    pub(super) fn refuse(&mut self, why: &Failure) {
        if let Self::Connecting(connecting) = std::mem::replace(self, Self::Open) {
            connecting.fail(why);
        }
    }
}
