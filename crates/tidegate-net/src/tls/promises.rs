//! Promises of writes that become one write.

use tidegate_promise::{Failure, Outcome, Promise, promise};

use crate::awaited::result;

/// Combines several promises into one.
pub(super) fn join_promises(mut promises: Vec<Promise<()>>) -> Option<Promise<()>> {
    if promises.len() < 2 {
        return promises.pop();
    }
    let (all, sent) = promise::<()>();
    sent.finally(move |outcome| {
        for promise in promises {
            complete(promise, outcome);
        }
    });
    Some(all)
}

/// Completes `promise` with the outcome of another one.
pub(super) fn complete(promise: Promise<()>, outcome: Outcome<&(), &Failure>) {
    let _ = promise.complete(result(outcome).copied());
}
