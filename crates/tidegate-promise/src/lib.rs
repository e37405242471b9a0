//! Promises whose listeners run where you say.
//!
//! A [`Promise`] is the write end: unique, consumed by `succeed` or `fail`, so completing twice
//! does not compile. A [`Completion`] is the read end: it takes listeners, can be waited for,
//! and is a future in any runtime. Exactly one of success, failure and cancellation happens,
//! exactly once; dropping the promise fails it as abandoned instead of hanging whoever waits.
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
//! A promise has a home: the executor on which its listeners run. [`promise_on`] sets it (an
//! event loop's own `promise` method does so), [`promise`] makes one without a home, whose
//! listeners run on the thread that completes it.
//!
//! # Files
//!
//! `block` is the raw block and holds all unsafe code; its header lists what lies below what. On
//! it stand `wait` (blocking waits), `shared` ([`SharedCompletion`]), `completion`
//! ([`Completion`]) and `promise` ([`Promise`], and the functions that create pairs); above those
//! `chain` (completions made from others), `combine` ([`all`], [`any`], [`first_success`]) and
//! `progress` ([`ProgressPromise`]). `outcome` and `failure` know none of them.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod block;
mod chain;
mod combine;
mod completion;
mod failure;
mod outcome;
mod progress;
mod promise;
mod shared;
mod wait;

pub use tidegate_core::{WaitRefused, blocking_allowed, non_blocking};

pub use self::combine::{Combine, all, any, first_success};
pub use self::completion::{CancelOnDrop, Completion, ListenerId};
pub use self::failure::{Abandoned, Failure, FailureKind};
pub use self::outcome::Outcome;
pub use self::progress::{BadProgress, Progress, ProgressPromise, Progressive};
pub use self::promise::{
    AlreadyCancelled, Promise, SharedPromise, promise, promise_of, promise_on, promise_owed,
};
pub use self::shared::{ListenerGuard, SharedCompletion};
pub use self::wait::WaitError;
