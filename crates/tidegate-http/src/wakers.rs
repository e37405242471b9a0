//! Calls of wakers. A waker is user code: it may panic, block or call back, so none of its functions
//! runs under a lock, and its panic does not reach a connection.

use std::task::Waker;

use tidegate_core::internal::contain;

/// Wakes a reader or a writer, on any thread. The caller goes on, whatever the waker does.
pub(crate) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        let _ = contain(|| waker.wake());
    }
}
