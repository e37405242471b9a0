//! Promises that report progress before they complete.
//!
//! A report is sent to the promise's home as a signal, which a full queue cannot reject. Only the
//! latest report is kept: if several arrive before the home executor runs, the listeners see the
//! last one.

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{Deliver, Delivery, SignalBlock, contain, discard_all};
use tidegate_core::{Executor, OnUnhandled, Unhandled};

use crate::{AlreadyCancelled, Completion, Failure, Promise};

/// A report of how much work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The amount of work that is done.
    pub done: u64,
    /// The total amount of work, if it is known.
    pub total: Option<u64>,
}

impl Progress {
    /// Creates a report and checks it. `total` may be a number or `None`.
    ///
    /// # Errors
    ///
    /// Returns [`ProgressError`] if `done` exceeds `total`.
    pub fn new(done: u64, total: impl Into<Option<u64>>) -> Result<Self, ProgressError> {
        let total = total.into();
        if let Some(total) = total.filter(|total| done > *total) {
            return Err(ProgressError::TooMuch { done, total });
        }
        Ok(Self { done, total })
    }
}

/// The reason why a progress report was rejected.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressError {
    /// The amount done exceeds the total.
    TooMuch {
        /// The reported amount done.
        done: u64,
        /// The reported total.
        total: u64,
    },
    /// The reader has cancelled.
    Cancelled,
}

impl fmt::Display for ProgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch { done, total } => write!(
                f,
                "a progress of {done} is more than the total of {total}; report at most the \
                 total"
            ),
            Self::Cancelled => {
                f.write_str("the promise was cancelled by its reader; stop the work")
            }
        }
    }
}

impl Error for ProgressError {}

tidegate_core::debug_as_display!(ProgressError);

/// A promise that can report progress. Complete it with the methods below, or through
/// [`ProgressPromise::into_inner`].
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_promise::{Promise, promise};
///
/// let (promise, answer) = Promise::with_progress(promise::<u32>());
/// let (tx, rx) = mpsc::channel();
/// answer.on_progress(move |progress| tx.send(progress.done).unwrap());
/// promise.progress(1, 3)?;
/// promise.progress(2, 3)?;
/// promise.succeed(3)?;
/// assert_eq!(rx.try_iter().collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(answer.into_inner().wait()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ProgressPromise<T: Send + 'static, E: Send + 'static = Failure> {
    promise: Promise<T, E>,
    hub: Arc<SignalBlock<Hub>>,
}

/// The read end of a promise with progress.
#[derive(Debug)]
pub struct ProgressCompletion<T: Send + 'static, E: Send + 'static = Failure> {
    completion: Completion<T, E>,
    hub: Arc<SignalBlock<Hub>>,
}

impl<T: Send + 'static, E: Send + 'static> Promise<T, E> {
    /// Adds progress to a promise. Takes the pair that [`promise`](crate::promise()) or the
    /// `promise` method of an event loop returns.
    pub fn with_progress(
        (promise, completion): (Self, Completion<T, E>),
    ) -> (ProgressPromise<T, E>, ProgressCompletion<T, E>) {
        let hub = SignalBlock::new(Hub {
            home: promise.home().cloned(),
            latest: Mutex::default(),
            listeners: Mutex::default(),
        });
        let promise = ProgressPromise {
            promise,
            hub: Arc::clone(&hub),
        };
        (promise, ProgressCompletion { completion, hub })
    }
}

impl<T: Send + 'static, E: Send + 'static> ProgressPromise<T, E> {
    /// Reports the progress of the work.
    ///
    /// # Errors
    ///
    /// Returns [`ProgressError`] if `done` exceeds `total` or the reader has cancelled.
    ///
    /// # Threads
    ///
    /// Listeners run before this method returns if the promise has no home, or if the calling
    /// thread is running the home executor. Otherwise they run on the home executor.
    pub fn progress(&self, done: u64, total: impl Into<Option<u64>>) -> Result<(), ProgressError> {
        let progress = Progress::new(done, total)?;
        if self.promise.is_cancelled() {
            return Err(ProgressError::Cancelled);
        }
        let Some(home) = &self.hub.home else {
            self.hub.call_listeners(progress);
            return Ok(());
        };
        if home.is_current() {
            self.hub.call_listeners(progress);
            return Ok(());
        }
        *lock(&self.hub.latest) = Some(progress);
        if let Some(signal) = self.hub.raise() {
            // A refused signal means that the home executor has terminated. Dropping the signal
            // delivers it.
            drop(home.signal(signal));
        }
        Ok(())
    }

    /// Completes the promise with a value; see [`Promise::succeed`].
    ///
    /// # Errors
    ///
    /// Returns the value if the reader has cancelled.
    pub fn succeed(self, value: T) -> Result<(), AlreadyCancelled<T>> {
        self.promise.succeed(value)
    }

    /// Completes the promise with a failure; see [`Promise::fail`].
    ///
    /// # Errors
    ///
    /// Returns the cause if the reader has cancelled.
    pub fn fail(self, cause: impl Into<E>) -> Result<(), AlreadyCancelled<E>> {
        self.promise.fail(cause)
    }

    /// Returns the promise without progress.
    pub fn into_inner(self) -> Promise<T, E> {
        self.promise
    }
}

impl<T: Send + 'static, E: Send + 'static> ProgressCompletion<T, E> {
    /// Calls `listen` with each later report.
    ///
    /// # Threads
    ///
    /// `listen` runs on the promise's home, or, if it has none, on the thread that reports. A
    /// panic in it is reported to the home.
    pub fn on_progress(&self, listen: impl Fn(Progress) + Send + Sync + 'static) {
        lock(&self.hub.listeners).push(Arc::new(listen));
    }

    /// Returns the completion without progress.
    pub fn into_inner(self) -> Completion<T, E> {
        self.completion
    }
}

impl<T: Send + 'static, E: Send + 'static> Deref for ProgressCompletion<T, E> {
    type Target = Completion<T, E>;

    fn deref(&self) -> &Self::Target {
        &self.completion
    }
}

impl<T: Send + 'static, E: Send + 'static> DerefMut for ProgressCompletion<T, E> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.completion
    }
}

type ProgressFn = dyn Fn(Progress) + Send + Sync;

/// The state shared by both ends: the listeners, and the latest report that the home has not seen.
struct Hub {
    home: Option<Arc<dyn Executor>>,
    latest: Mutex<Option<Progress>>,
    /// Listeners in the order in which they were added. None is ever removed.
    listeners: Mutex<Vec<Arc<ProgressFn>>>,
}

impl Hub {
    fn call_listeners(&self, progress: Progress) {
        let listeners = lock(&self.listeners).clone();
        for listen in listeners {
            if let Err(panic) = contain(|| listen(progress)) {
                let message = panic.message();
                let what = Unhandled::ListenerPanic { message };
                match &self.home {
                    Some(home) => drop(contain(|| home.unhandled(&what))),
                    None => OnUnhandled::default().report("a promise without a home", &what),
                }
            }
        }
    }
}

impl Drop for Hub {
    /// A listener may panic when it is dropped.
    fn drop(&mut self) {
        discard_all(std::mem::take(&mut *lock(&self.listeners)));
    }
}

impl Deliver for Hub {
    fn deliver(block: Arc<SignalBlock<Self>>, _how: Delivery) {
        let latest = lock(&block.latest).take();
        if let Some(progress) = latest {
            block.call_listeners(progress);
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}
