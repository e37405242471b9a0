//! The check that the handlers of a chain fit each other, and its error.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use bytes::Bytes;

use super::shape::Shape;
use crate::channel::Datagram;
use crate::message::{AnyMessage, Kind, Nothing};

/// The name of a handler.
pub(crate) type Name = Cow<'static, str>;

/// The error for a chain of handlers that was refused.
///
/// ```
/// use tidegate_net::handlers::{LineFrames, Strings};
/// use tidegate_net::{EmbeddedChannel, PipelineError};
///
/// let refused = EmbeddedChannel::new(|p| {
///     p.add_duplex("strings", Strings::utf8()).add("lines", LineFrames::max(80))
/// });
/// let refused = refused.unwrap_err();
/// assert!(matches!(refused, PipelineError::TypeMismatch { .. }));
/// assert!(refused.to_string().contains("`strings`") && refused.to_string().contains("`lines`"));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipelineError {
    /// The message types of two handlers, or of a handler and the socket, do not match.
    TypeMismatch {
        /// The handler that passes the message on or writes it.
        from: String,
        /// The type of that message.
        gives: &'static str,
        /// The handler that takes the message.
        to: String,
        /// The type that it takes.
        takes: &'static str,
        /// `true` for a write, `false` for a read.
        writing: bool,
    },
    /// There already is a handler of that name.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// There is no handler of that name.
    NoSuchHandler {
        /// The name.
        name: String,
    },
    /// A handler that is not `Send` was given to a channel of a roaming loop.
    NotSend {
        /// The handler's name.
        name: String,
    },
    /// The channel is closed.
    Closed,
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeMismatch {
                from,
                gives,
                to,
                takes,
                writing,
            } => write!(
                f,
                "`{from}` {} {gives}, but `{to}` takes {takes}; add a handler that converts \
                 between them",
                if *writing { "writes" } else { "passes on" }
            ),
            Self::DuplicateName { name } => write!(
                f,
                "there is a handler called `{name}` already; choose another name"
            ),
            Self::NoSuchHandler { name } => {
                write!(f, "there is no handler called `{name}`; check the name")
            }
            Self::NotSend { name } => write!(
                f,
                "`{name}` was made to stay on its thread, but the channels of a roaming loop \
                 travel; make it with `Handler::inbound`, `outbound` or `duplex`"
            ),
            Self::Closed => f.write_str("the channel is closed, and its handlers are gone"),
        }
    }
}

impl Error for PipelineError {}

tidegate_core::debug_as_display!(PipelineError);

/// The message type at the socket end of a chain; an embedded channel for tests accepts anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Kind(Kind),
    Anything,
}

impl Eq for Kind {}

impl Head {
    pub(crate) const BYTES: Self = Self::Kind(Kind::of::<Bytes>());
    pub(crate) const DATAGRAMS: Self = Self::Kind(Kind::of::<Datagram>());
}

const SOCKET: &str = "the socket";

/// Checks that the names of `chain` are unique and that adjacent types match, from the socket to
/// the last handler.
pub(crate) fn check(chain: &[(Name, &'static Shape)], head: Head) -> Result<(), PipelineError> {
    for (at, (name, _)) in chain.iter().enumerate() {
        if chain[..at].iter().any(|(other, _)| other == name) {
            let name = name.to_string();
            return Err(PipelineError::DuplicateName { name });
        }
    }
    check_reads(chain, head)?;
    for (at, (_, shape)) in chain.iter().enumerate() {
        if let Some([_, _, writes]) = shape.inbound {
            check_writes(chain, head, at, writes)?;
        }
        if let Some([_, writes]) = shape.outbound {
            check_writes(chain, head, at, writes)?;
        }
    }
    Ok(())
}

fn check_reads(chain: &[(Name, &'static Shape)], head: Head) -> Result<(), PipelineError> {
    let mut from = SOCKET;
    let mut flow = match head {
        Head::Kind(kind) => Some(kind),
        Head::Anything => None,
    };
    for (name, shape) in chain {
        let Some([takes, passes, _]) = shape.inbound else {
            continue;
        };
        if !takes.is::<AnyMessage>() {
            if let Some(flow) = flow.filter(|flow| *flow != takes) {
                return Err(misfit(from, flow, name, takes, false));
            }
            flow = Some(takes);
        }
        if !passes.is::<AnyMessage>() {
            flow = Some(passes);
            from = name;
        }
    }
    Ok(())
}

/// Checks that the handler which receives the writes of handler `at` takes their type.
fn check_writes(
    chain: &[(Name, &'static Shape)],
    head: Head,
    at: usize,
    writes: Kind,
) -> Result<(), PipelineError> {
    if writes.is::<Nothing>() || writes.is::<AnyMessage>() {
        return Ok(());
    }
    let from = &chain[at].0;
    for (name, shape) in chain[..at].iter().rev() {
        match shape.outbound {
            Some([takes, hands]) if takes.is::<AnyMessage>() && hands.is::<AnyMessage>() => {}
            Some([takes, _]) if takes.is::<AnyMessage>() || takes == writes => return Ok(()),
            Some([takes, _]) => return Err(misfit(from, writes, name, takes, true)),
            None => {}
        }
    }
    match head {
        Head::Kind(kind) if kind != writes => Err(misfit(from, writes, SOCKET, kind, true)),
        _ => Ok(()),
    }
}

fn misfit(from: &str, gives: Kind, to: &str, takes: Kind, writing: bool) -> PipelineError {
    PipelineError::TypeMismatch {
        from: from.to_owned(),
        gives: gives.name(),
        to: to.to_owned(),
        takes: takes.name(),
        writing,
    }
}
