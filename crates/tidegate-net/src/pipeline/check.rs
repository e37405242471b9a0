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

/// Checks that the names of `chain` are unique.
pub(crate) fn check_names(chain: &[(Name, &'static Shape)]) -> Result<(), PipelineError> {
    let mut names = chain.iter().map(|(name, _)| name).enumerate();
    match names.find(|(at, name)| chain[..*at].iter().any(|(other, _)| other == *name)) {
        Some((_, name)) => Err(duplicate(name)),
        None => Ok(()),
    }
}

/// Returns the error for a second handler of this name.
pub(crate) fn duplicate(name: &Name) -> PipelineError {
    let name = name.to_string();
    PipelineError::DuplicateName { name }
}

/// Checks that adjacent types match, from the socket to the last handler. The time that it takes is
/// proportional to the number of handlers, since each change of a chain is checked.
pub(crate) fn check_types(
    chain: &[(Name, &'static Shape)],
    head: Head,
) -> Result<(), PipelineError> {
    check_reads(chain, head)?;
    check_writes(chain, head)
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

/// Checks that the handler which receives the writes of another one takes their type.
fn check_writes(chain: &[(Name, &'static Shape)], head: Head) -> Result<(), PipelineError> {
    // What receives the writes of the next handler, and its type; `None` if it takes every type.
    let mut receiver: Option<(&str, Kind)> = match head {
        Head::Kind(kind) => Some((SOCKET, kind)),
        Head::Anything => None,
    };
    for (from, shape) in chain {
        let of_inbound = shape.inbound.map(|[_, _, writes]| writes);
        let of_outbound = shape.outbound.map(|[_, writes]| writes);
        for writes in of_inbound.into_iter().chain(of_outbound) {
            let typed = !(writes.is::<Nothing>() || writes.is::<AnyMessage>());
            if let Some((to, takes)) = receiver.filter(|(_, takes)| typed && *takes != writes) {
                return Err(misfit(from, writes, to, takes, true));
            }
        }
        receiver = match shape.outbound {
            Some([takes, _]) if !takes.is::<AnyMessage>() => Some((&**from, takes)),
            Some([_, writes]) if !writes.is::<AnyMessage>() => None,
            // It has no writes, or passes on those of others.
            _ => receiver,
        };
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    //! The check of writes in one pass, against one that looks for each receiver.

    use std::sync::LazyLock;

    use tidegate_core::Blocking;
    use tidegate_testkit::model;

    use super::*;

    static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
        let kinds = [
            Kind::of::<Bytes>(),
            Kind::of::<String>(),
            Kind::of::<AnyMessage>(),
            Kind::of::<Nothing>(),
        ];
        let any = Kind::of::<AnyMessage>();
        let inbound = kinds.map(|writes| Some([any, any, writes])).into_iter();
        let inbound: Vec<_> = inbound.chain([None]).collect();
        let takes = kinds[..3].iter();
        let outbound = takes.flat_map(|takes| kinds.map(|writes| Some([*takes, writes])));
        let outbound = outbound.chain([None]);
        let shapes = outbound.flat_map(|outbound| {
            inbound.iter().map(move |inbound| Shape {
                inbound: *inbound,
                outbound,
                blocking: Blocking::Never,
                type_name: || "handler",
            })
        });
        shapes.collect()
    });

    /// Returns the first handler whose writes do not fit, and the receiver.
    fn first_misfit(chain: &[(Name, &'static Shape)], head: Head) -> Option<(usize, usize)> {
        for (at, (_, shape)) in chain.iter().enumerate() {
            let of_inbound = shape.inbound.map(|kinds| kinds[2]);
            for writes in of_inbound
                .into_iter()
                .chain(shape.outbound.map(|kinds| kinds[1]))
            {
                let passes = |kinds: [Kind; 2]| kinds.iter().all(|kind| kind.is::<AnyMessage>());
                let receives =
                    |at: &usize| chain[*at].1.outbound.is_some_and(|kinds| !passes(kinds));
                let receiver = (0..at).rev().find(receives);
                let takes = match (receiver, head) {
                    (Some(at), _) => chain[at].1.outbound.map(|kinds| kinds[0]),
                    (None, Head::Kind(kind)) => Some(kind),
                    (None, Head::Anything) => None,
                };
                let any = |kind: Kind| kind.is::<AnyMessage>();
                let fits = takes.is_none_or(|takes| any(takes) || takes == writes);
                if !(fits || any(writes) || writes.is::<Nothing>()) {
                    return Some((at, receiver.unwrap_or(usize::MAX)));
                }
            }
        }
        None
    }

    #[test]
    fn each_write_is_checked_against_the_handler_that_receives_it() {
        model(0..500, |rng| {
            let name = |at: usize| Name::Owned(at.to_string());
            let chain = (0..rng.index(8)).map(|at| (name(at), &SHAPES[rng.index(SHAPES.len())]));
            let chain: Vec<_> = chain.collect();
            for head in [Head::BYTES, Head::Anything] {
                let found = check_writes(&chain, head).err().map(|why| match why {
                    PipelineError::TypeMismatch { from, to, .. } => (from, to),
                    other => panic!("{other}"),
                });
                let expected = first_misfit(&chain, head).map(|(from, to)| {
                    let to = chain
                        .get(to)
                        .map_or(SOCKET.to_owned(), |(name, _)| name.to_string());
                    (from.to_string(), to)
                });
                assert_eq!(found, expected);
            }
        });
    }
}
