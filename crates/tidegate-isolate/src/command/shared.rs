//! What every call of a command works with.

use std::sync::Arc;

use crate::error::CommandError;
use crate::isolation::state::State;

pub(super) type Fallback<T, E> = Arc<dyn Fn(&CommandError<E>) -> Result<T, E> + Send + Sync>;
pub(super) type IsBadRequest<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;

/// A command without its handle: the state of its key, and what its builder was given.
pub(super) struct Shared<T, E> {
    pub(super) state: Arc<State>,
    pub(super) fallback: Option<Fallback<T, E>>,
    pub(super) is_bad_request: Option<IsBadRequest<E>>,
}
