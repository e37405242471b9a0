//! Why a gateway cannot start or take over a configuration.

use tidegate::promise::{Failure, WaitError};

use crate::problem::advised;
use crate::proxy::BuildError;

/// Why a gateway cannot start, or cannot take over a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A part of the configuration cannot be used: a file, an address, a setting.
    #[error("{0}")]
    Config(String),
    /// The gateway drains: it takes over nothing new.
    #[error("the gateway is ending")]
    Ending,
    /// A listener cannot be opened.
    #[error("listen.{name}: cannot listen on {at}: {why}")]
    Listen {
        /// The name of the listener.
        name: String,
        /// Its address.
        at: String,
        /// The reason.
        why: String,
    },
}

impl StartError {
    pub(super) fn listen(name: &str, at: impl ToString, why: impl ToString) -> Self {
        Self::Listen {
            name: name.to_owned(),
            at: at.to_string(),
            why: advised(&why),
        }
    }

    /// The certificates of a listener cannot be used.
    pub(super) fn certificates(name: &str, why: &str) -> Self {
        Self::Config(format!("listen.{name}.tls: {why}"))
    }
}

impl StartError {
    /// Returns `true` if something listens on the address already.
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self, Self::Listen { why, .. } if why.contains("already in use"))
    }

    /// Adds what has become of the old listeners, whose sockets were needed.
    pub(super) fn and(self, more: &str) -> Self {
        match self {
            Self::Listen { name, at, why } => {
                let why = format!("{why}; {more}");
                Self::Listen { name, at, why }
            }
            other => Self::Config(format!("{other}; {more}")),
        }
    }
}

impl From<BuildError> for StartError {
    fn from(why: BuildError) -> Self {
        Self::Config(why.to_string())
    }
}

/// Returns what a wait failed with, for a message.
pub(super) fn reason(why: &WaitError<Failure>) -> String {
    why.to_string()
}
