//! The data that all calls of a command share.

use std::sync::Arc;

use super::fallback_fn::Fallback;
use crate::isolation::state::State;

pub(super) type IsBadRequest<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;

/// The data behind a handle: the state of the key, and the closures that the builder received.
pub(super) struct Shared<T, E> {
    pub(super) state: Arc<State>,
    pub(super) fallback: Option<Fallback<T, E>>,
    pub(super) is_bad_request: Option<IsBadRequest<E>>,
}
