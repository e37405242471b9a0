//! Promises with listeners that run on a chosen executor.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! A [`Promise`] is the write end. It is unique, and `succeed` or `fail` consumes it, so
//! completing a promise twice does not compile. A [`Completion`] is the read end: it accepts
//! listeners, a thread can block on it, and it is a future in any runtime. Each promise ends
//! exactly once, with a success, a failure or a cancellation. Dropping the promise fails it as
//! abandoned, so that no waiter hangs.
//!
//! ```
//! use tidegate_promise::{Outcome, promise};
//!
//! let (promise, answer) = promise::<u32>();
//! answer.on_complete(|outcome| match outcome {
//!     Outcome::Success(n) => println!("finished: {n}"),
//!     Outcome::Failure(cause) => println!("failed: {cause}"),
//!     Outcome::Cancelled => println!("cancelled"),
//! });
//! promise.succeed(123_456)?;
//! assert_eq!(answer.wait()?, 123_456);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A promise has a home: the executor on which its listeners run. [`promise_on`] sets it, and so
//! does an event loop's own `promise` method. [`promise`] creates a promise without a home; its
//! listeners run on the thread that completes it.
//!
//! # Files
//!
//! `internal` is hidden and unstable: it re-exports what the other crates of this workspace need.
//! `block` is the raw block and contains all unsafe code; its header lists its files in dependency
//! order. `wait` (blocking waits), `shared` ([`SharedCompletion`]), `completion` ([`Completion`])
//! and `promise` ([`Promise`], and the functions that create pairs) build on it. `chain`
//! (completions made from others), `combine` ([`Completion::all`]) and `progress`
//! ([`ProgressPromise`](progress::ProgressPromise)) build on those. `outcome` and `failure` depend
//! on none of them.
#![deny(unsafe_code)]

mod block;
mod chain;
mod combine;
mod completion;
mod failure;
#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::block::{
        ListenerToken, Reader, SharedReader, SharedWriter, Writer, as_outermost, block,
        notify_unstarted,
    };
    pub use crate::promise::promise_for_task;
}
mod outcome;
pub mod progress;
mod promise;
mod shared;
mod wait;

pub use tidegate_core::WaitRefusedError;

pub use self::completion::{CancelOnDrop, Completion, ListenerId};
pub use self::failure::{AbandonedError, Failure, FailureKind};
pub use self::outcome::Outcome;
pub use self::promise::{
    AlreadyCancelled, Promise, SharedPromise, promise, promise_on, promise_with_error,
};
pub use self::shared::{ListenerGuard, SharedCompletion};
pub use self::wait::WaitError;
