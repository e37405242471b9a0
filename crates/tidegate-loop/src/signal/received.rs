//! A signal that was received.

use std::fmt;

use tidegate_promise::Completion;

use super::dispatcher;
use crate::sys::signal::Kind;

/// A signal that the process received: the value of [`terminate`](super::terminate) and the other
/// completions for signals.
///
/// ```
/// # #[cfg(unix)]
/// # {
/// use std::process::{Command, id};
/// use tidegate_loop::signal;
///
/// let pending = signal::user1();
/// Command::new("sh").args(["-c", &format!("kill -USR1 {}", id())]).status()?;
/// let first = pending.wait()?;
/// assert_eq!(first.to_string(), "SIGUSR1 received");
/// assert!(!first.next().is_done()); // there was no second one
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub(super) kind: Kind,
    /// The number of signals of this kind up to and including this one.
    pub(super) count: u64,
}

impl Received {
    /// Returns a completion for the next signal of the same kind. If one has arrived after this
    /// value was created, the completion succeeds at once.
    pub fn next(&self) -> Completion<Received> {
        dispatcher::after(self.kind, self.count)
    }

    /// Returns the name of the signal, as in `kill -l`.
    pub fn name(&self) -> &'static str {
        name(self.kind)
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} received", self.name())
    }
}

pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Terminate => "SIGTERM",
        Kind::Interrupt => "SIGINT",
        #[cfg(unix)]
        Kind::Hangup => "SIGHUP",
        #[cfg(unix)]
        Kind::User1 => "SIGUSR1",
    }
}
