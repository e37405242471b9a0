//! The end of a future that took a channel over.

use std::pin::Pin;

use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use crate::channel::Channel;

/// The name of the future in a report.
pub(super) const CODE: &str = "the future that took the channel over";

/// Drops the future, if it still exists. Its `Drop` is user code: a panic goes to the hook for
/// unhandled errors.
pub(super) fn drop_future<T>(channel: &Channel, future: Option<Pin<Box<T>>>) {
    if let Err(panic) = contain(|| drop(future)) {
        channel
            .shared()
            .report(&Failure::from_panic_of(CODE, panic));
    }
}
