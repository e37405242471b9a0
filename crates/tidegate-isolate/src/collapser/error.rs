//! The error of a collapsed request.

use tidegate_promise::AbandonedError;

use crate::error::CommandError;

/// Why a collapsed request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollapserError<E> {
    /// The batch failed.
    #[error("the batch of this request failed")]
    Batch(#[source] CommandError<E>),
    /// The batch succeeded and has no result for this argument.
    #[error("the batch has no result for this argument")]
    NoResponse,
    /// An equal argument is in the batch, and equal arguments do not share a result.
    #[error("an equal argument is in the batch already: let equal arguments share a result")]
    Duplicate,
    /// There is no request on this thread: enter a `RequestContext`, or use
    /// [`CollapserScope::Global`](crate::CollapserScope::Global).
    #[error("there is no request on this thread: enter a RequestContext first")]
    NoContext,
    /// The collapser or its isolation is gone.
    #[error("the collapser or its isolation has ended: build a new one")]
    Gone,
}

impl<E> From<AbandonedError> for CollapserError<E> {
    fn from(_: AbandonedError) -> Self {
        Self::Gone
    }
}
