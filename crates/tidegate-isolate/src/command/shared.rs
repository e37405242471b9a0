//! What every call of a command works with.

use std::sync::Arc;

use super::fallback_fn::Fallback;
use crate::isolation::state::State;

pub(super) type IsBadRequest<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;

/// A command without its handle: the state of its key, and what its builder was given.
pub(super) struct Shared<T, E> {
    pub(super) state: Arc<State>,
    pub(super) fallback: Option<Fallback<T, E>>,
    pub(super) is_bad_request: Option<IsBadRequest<E>>,
}
