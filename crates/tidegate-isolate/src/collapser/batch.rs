//! An open batch: the collected requests, and the promises that wait for each of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tidegate_core::internal::discard;
use tidegate_core::permits::Permit;
use tidegate_promise::Promise;

use super::error::CollapserError;
use crate::alarm::TimerTaskId;
use crate::error::{Cause, CommandError, contain};
use crate::key::Key;
use crate::lock::lock;

pub(super) type Waiting<V, E> = Vec<Promise<V, CollapserError<E>>>;
/// The slot that holds the open batch.
pub(super) type Slot<A, V, E> = Arc<Mutex<Batch<A, V, E>>>;

pub(super) struct Batch<A, V, E> {
    pub(super) requests: HashMap<A, Box<dyn Receive<V, E>>>,
    /// The arguments in the order in which they were added.
    pub(super) order: Vec<A>,
    /// Identifies the batch once its timer is about to be set; 0 before.
    pub(super) number: u64,
    pub(super) alarm: Option<TimerTaskId>,
}

impl<A, V, E> Default for Batch<A, V, E> {
    fn default() -> Self {
        Self {
            requests: HashMap::new(),
            order: Vec::new(),
            number: 0,
            alarm: None,
        }
    }
}

/// Arguments, and requests with their arguments.
pub(super) type Unwanted<A, V, E> = (Vec<A>, Vec<(A, Box<dyn Receive<V, E>>)>);

impl<A: Eq + Hash, V, E> Batch<A, V, E> {
    /// Takes out the requests whose callers have all cancelled. They hold values of the user, which are
    /// dropped with no lock held.
    pub(super) fn take_unwanted(&mut self) -> Unwanted<A, V, E> {
        let left = |_: &A, waiting: &mut Box<dyn Receive<V, E>>| !waiting.is_wanted();
        let requests: Vec<_> = self.requests.extract_if(left).collect();
        let mut order = Vec::new();
        if !requests.is_empty() {
            let is_left = |argument: &mut A| !self.requests.contains_key(argument);
            order.extend(self.order.extract_if(.., is_left));
        }
        (order, requests)
    }
}

pub(super) static NEXT_BATCH: AtomicU64 = AtomicU64::new(1);

/// A batch that waits for its delay. If this is dropped before, the batch never runs, and its
/// requests fail because the collapser is gone.
pub(super) struct Due<A, V, E> {
    pub(super) slot: Slot<A, V, E>,
    pub(super) number: u64,
    /// A place on the command's callback threads, held until the batch has run.
    pub(super) _place: Permit,
}

impl<A, V, E> Due<A, V, E> {
    /// Takes the batch, unless it was filled and taken before.
    pub(super) fn take(&mut self) -> Option<Batch<A, V, E>> {
        let mut batch = lock(&self.slot);
        (batch.number == self.number).then(|| std::mem::take(&mut *batch))
    }
}

impl<A, V, E> Drop for Due<A, V, E> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The promises that wait for one argument.
pub(super) trait Receive<V, E>: Send {
    fn add(&mut self, promise: Promise<V, CollapserError<E>>)
    where
        V: Send + 'static,
        E: Send + 'static;
    fn is_wanted(&self) -> bool;
    fn count(&self) -> usize;
    /// Calls `left` for each caller that cancels, or has cancelled.
    fn on_cancel(&self, left: &Arc<dyn Fn() + Send + Sync>);
    /// Completes all promises. `answer` makes a copy of the result, which is user code: a panic
    /// fails only the request that it was made for.
    fn end(self: Box<Self>, command: &Key, answer: &dyn Fn() -> Result<V, CollapserError<E>>);
}

impl<V: Clone + Send + 'static, E: Clone + Send + 'static> Receive<V, E> for Waiting<V, E> {
    fn add(&mut self, promise: Promise<V, CollapserError<E>>) {
        self.push(promise);
    }

    fn is_wanted(&self) -> bool {
        self.iter().any(|promise| !promise.is_cancelled())
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn on_cancel(&self, left: &Arc<dyn Fn() + Send + Sync>) {
        for promise in self {
            let left = Arc::clone(left);
            promise.on_cancel(move || left());
        }
    }

    fn end(self: Box<Self>, command: &Key, answer: &dyn Fn() -> Result<V, CollapserError<E>>) {
        for promise in *self {
            let copy = contain(answer).unwrap_or_else(|message| {
                let error = CommandError::new(command, Cause::Panicked(message));
                Err(CollapserError::Batch(error))
            });
            discard(promise.complete(copy));
        }
    }
}
