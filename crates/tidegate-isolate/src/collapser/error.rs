//! The error of a collapsed request.

use std::fmt;

use tidegate_promise::AbandonedError;

use crate::error::CommandError;

/// Why a collapsed request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollapserError<E> {
    /// The batch failed.
    Batch(CommandError<E>),
    /// The batch succeeded and has no result for this argument.
    NoResponse,
    /// An equal argument is in the batch, and equal arguments do not share a result.
    Duplicate,
    /// There is no request on this thread: enter a `RequestContext`, or use
    /// [`CollapserScope::Global`](crate::CollapserScope::Global).
    NoContext,
    /// The collapser or its isolation is gone.
    Gone,
}

impl<E> fmt::Display for CollapserError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(_) => f.write_str("the batch of this request failed"),
            Self::NoResponse => f.write_str("the batch has no result for this argument"),
            Self::Duplicate => f.write_str(
                "an equal argument is in the batch already: let equal arguments share a result",
            ),
            Self::NoContext => {
                f.write_str("there is no request on this thread: enter a RequestContext first")
            }
            Self::Gone => f.write_str("the collapser or its isolation has ended: build a new one"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CollapserError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Batch(why) => Some(why),
            _ => None,
        }
    }
}

impl<E> From<AbandonedError> for CollapserError<E> {
    fn from(_: AbandonedError) -> Self {
        Self::Gone
    }
}
