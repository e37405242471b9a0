//! The states of a connection.

use std::collections::VecDeque;
use std::io;

use tidegate_promise::{Failure, Promise};

use crate::reactor::Next;

/// What a channel off its loop knows of that.
pub(super) struct Off {
    pub(super) phase: Phase,
    /// Who asked for the change that is going on.
    pub(super) promise: Option<Promise<()>>,
    /// The loop has still to be asked for that change.
    pub(super) ask: bool,
    /// How it went.
    pub(super) said: Option<io::Result<()>>,
    /// What was asked meanwhile, oldest first: to be on the loop, or off it.
    pub(super) wishes: VecDeque<(bool, Promise<()>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Leaving,
    Off,
    Returning,
}

impl Off {
    pub(super) fn leaving(promise: Promise<()>) -> Box<Self> {
        Box::new(Self {
            phase: Phase::Leaving,
            promise: Some(promise),
            ask: true,
            said: None,
            wishes: VecDeque::new(),
        })
    }

    /// Whether the poller knows of the socket, or is about to.
    pub(super) fn is_watched(&self) -> bool {
        self.phase != Phase::Off
    }

    pub(super) fn note(&mut self, said: io::Result<()>) {
        self.said = Some(said);
    }

    /// What the loop has to do for it.
    pub(super) fn next(&mut self) -> Next {
        if std::mem::take(&mut self.ask) {
            Next::Watch(self.phase == Phase::Returning)
        } else {
            Next::Stay
        }
    }

    /// The channel is closed: whoever asked for something hears so.
    pub(super) fn refuse(self, closed: &Failure) {
        let wishes = self.wishes.into_iter().map(|(_, promise)| promise);
        for promise in self.promise.into_iter().chain(wishes) {
            let _ = promise.fail(closed.clone());
        }
    }
}
