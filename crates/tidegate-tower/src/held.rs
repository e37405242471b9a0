//! The call of a response whose head has arrived: it holds the permit until the body has ended.
//!
//! | | the verdict is given with the head | the verdict is given at the end |
//! |---|---|---|
//! | what decides | the head | the trailers, a failure of the body, or the head |
//! | latency and adaptive limit | until the head | until the end of the body |
//! | the timeout of the command | until the head, then for each wait for the dependency | until the end |
//! | a reader that takes its time | holds the permit | may exceed the timeout |

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_isolate::{Cause, CommandError, Entry, Verdict};

/// A future that ends a wait for the dependency.
type StallLimit = Pin<Box<dyn Future<Output = Cause<Infallible>> + Send + Sync>>;

/// A call with the verdict on the head of its response. Dropping it ends the call with that verdict:
/// a caller that does not need the rest of a response has nothing against the dependency.
pub(crate) struct HeldCall {
    /// `None` once the call has ended.
    entry: Option<Entry>,
    /// The verdict that is not given yet.
    verdict: Option<Verdict>,
    /// Set while the reader waits for the dependency and the verdict is given.
    stall: Option<StallLimit>,
}

impl HeldCall {
    /// Creates a call whose verdict is not given yet.
    pub(crate) fn new(entry: Entry, verdict: Verdict) -> Self {
        Self {
            entry: Some(entry),
            verdict: Some(verdict),
            stall: None,
        }
    }

    /// Replaces the verdict. Has no effect if it was given with the head.
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        if let Some(mine) = &mut self.verdict {
            *mine = verdict;
        }
    }

    /// Gives the verdict and keeps the permit. Returns the error of a call that was too late.
    pub(crate) fn settle<E>(&mut self) -> Result<(), CommandError<E>> {
        match (&self.entry, self.verdict.take()) {
            (Some(entry), Some(verdict)) => entry.settle(verdict),
            _ => Ok(()),
        }
    }

    /// Gives the verdict, unless it was given with the head, and gives the permit back. Returns the
    /// error of a call that was too late.
    pub(crate) fn end<E>(mut self) -> Result<(), CommandError<E>> {
        self.settle()
    }

    /// Ends the call with this cause, which is not counted if the verdict was given with the head.
    /// Returns the error for the reader.
    pub(crate) fn fail(mut self, cause: Cause<Infallible>) -> Option<CommandError<Infallible>> {
        self.verdict = None;
        self.entry.take().map(|entry| entry.fail(cause))
    }

    /// Returns `true` if the call has ended while its verdict was not given yet.
    pub(crate) fn is_expired(&self) -> bool {
        let entry = self.entry.as_ref();
        self.verdict.is_some() && entry.is_some_and(Entry::is_expired)
    }

    /// Is ready with a cause when the wait for the dependency has to end.
    pub(crate) fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Cause<Infallible>> {
        let Some(entry) = &mut self.entry else {
            return Poll::Pending;
        };
        if self.verdict.is_some() {
            // The entry knows the cause by itself.
            return entry.poll_expired(context).map(|()| Cause::Cancelled);
        }
        let stall = &mut self.stall;
        let stall = stall.get_or_insert_with(|| Box::pin(entry.stall_limit()));
        stall.as_mut().poll(context)
    }

    /// Ends a wait: the dependency has delivered something.
    pub(crate) fn delivered(&mut self) {
        self.stall = None;
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        if let (Some(entry), Some(verdict)) = (&self.entry, self.verdict.take()) {
            entry.verdict(verdict);
        }
    }
}
