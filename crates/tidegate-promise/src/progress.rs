//! Promises that report progress before they complete.
//!
//! A report is sent to the promise's home as a signal, which a full queue cannot reject. Only the
//! latest report is kept: if several arrive before the home executor runs, the listeners see the
//! last one. Every report goes through that one place, and one thread at a time takes it from there,
//! so a listener never sees an earlier report after a later one. Before the promise is completed on
//! its home, the last report is delivered; elsewhere its signal is ahead of that of the outcome.

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
pub struct ProgressPromise<T: Send + 'static, E: Send + 'static = Failure> {
    hub: Arc<SignalBlock<Hub<T, E>>>,
}

/// The read end of a promise with progress.
#[derive(Debug)]
pub struct ProgressCompletion<T: Send + 'static, E: Send + 'static = Failure> {
    completion: Completion<T, E>,
    hub: Arc<SignalBlock<Hub<T, E>>>,
}

impl<T: Send + 'static, E: Send + 'static> Promise<T, E> {
    /// Adds progress to a promise. Takes the pair that [`promise`](crate::promise()) or the
    /// `promise` method of an event loop returns.
    pub fn with_progress(
        (promise, completion): (Self, Completion<T, E>),
    ) -> (ProgressPromise<T, E>, ProgressCompletion<T, E>) {
        let hub = SignalBlock::new(Hub {
            home: promise.home().cloned(),
            reports: Mutex::new(Reports {
                promise: Some(promise),
                latest: None,
                deliveries: 0,
            }),
            listeners: Mutex::default(),
        });
        let promise = ProgressPromise {
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
    /// thread is running the home executor. Otherwise they run on the home executor. While listeners
    /// run with an earlier report, the thread on which they run delivers this one after it.
    pub fn progress(&self, done: u64, total: impl Into<Option<u64>>) -> Result<(), ProgressError> {
        let progress = Progress::new(done, total)?;
        let mut reports = lock(&self.hub.reports);
        if reports.is_cancelled() {
            return Err(ProgressError::Cancelled);
        }
        reports.latest = Some(progress);
        drop(reports);
        match &self.hub.home {
            Some(home) if !home.is_current() => {
                if let Some(signal) = self.hub.raise() {
                    // A refused signal means that the home executor has terminated. Dropping the
                    // signal delivers it.
                    drop(home.signal(signal));
                }
            }
            _ => self.hub.deliver_latest(),
        }
        Ok(())
    }

    /// Completes the promise with a value; see [`Promise::succeed`].
    ///
    /// # Errors
    ///
    /// Returns the value if the reader has cancelled.
    pub fn succeed(self, value: T) -> Result<(), AlreadyCancelled<T>> {
        self.into_inner().succeed(value)
    }

    /// Completes the promise with a failure; see [`Promise::fail`].
    ///
    /// # Errors
    ///
    /// Returns the cause if the reader has cancelled.
    pub fn fail(self, cause: impl Into<E>) -> Result<(), AlreadyCancelled<E>> {
        self.into_inner().fail(cause)
    }

    /// Returns the promise without progress.
    pub fn into_inner(self) -> Promise<T, E> {
        self.hub.end().expect("only the end of this value takes it")
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for ProgressPromise<T, E> {
    fn drop(&mut self) {
        drop(self.hub.end());
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for ProgressPromise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressPromise")
            .field("promise", &lock(&self.hub.reports).promise)
            .finish_non_exhaustive()
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

/// The state shared by both ends.
struct Hub<T: Send + 'static, E: Send + 'static> {
    home: Option<Arc<dyn Executor>>,
    reports: Mutex<Reports<T, E>>,
    /// Listeners in the order in which they were added. None is ever removed.
    listeners: Mutex<Vec<Arc<ProgressFn>>>,
}

struct Reports<T: Send + 'static, E: Send + 'static> {
    /// The promise, until it is completed or given up.
    promise: Option<Promise<T, E>>,
    /// The latest report, until its listeners run.
    latest: Option<Progress>,
    /// The number of calls of `deliver_latest` since the one that runs; 0 if none does.
    deliveries: usize,
}

impl<T: Send + 'static, E: Send + 'static> Reports<T, E> {
    fn is_cancelled(&self) -> bool {
        self.promise.as_ref().is_some_and(Promise::is_cancelled)
    }
}

impl<T: Send + 'static, E: Send + 'static> Hub<T, E> {
    /// Calls the listeners with the latest report, unless the reader has cancelled. If a call on
    /// another thread, or an outer one on this thread, does so already, that one repeats it.
    fn deliver_latest(&self) {
        let mut reports = lock(&self.reports);
        reports.deliveries += 1;
        if reports.deliveries > 1 {
            return;
        }
        let mut served = 0;
        while served < reports.deliveries {
            served = reports.deliveries;
            let latest = reports.latest.take();
            let latest = latest.filter(|_| !reports.is_cancelled());
            drop(reports);
            latest
                .into_iter()
                .for_each(|latest| self.call_listeners(latest));
            reports = lock(&self.reports);
        }
        reports.deliveries = 0;
    }

    /// Returns the promise, which is about to be completed or given up. No report follows.
    fn end(&self) -> Option<Promise<T, E>> {
        let here = self.home.as_ref().is_none_or(|home| home.is_current());
        if here {
            self.deliver_latest();
        }
        let mut reports = lock(&self.reports);
        // Here a report is only left if the caller is one of the listeners. Elsewhere its signal is
        // on its way.
        if here || reports.is_cancelled() {
            reports.latest = None;
        }
        reports.promise.take()
    }

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

impl<T: Send + 'static, E: Send + 'static> Drop for Hub<T, E> {
    /// A listener may panic when it is dropped.
    fn drop(&mut self) {
        discard_all(std::mem::take(&mut *lock(&self.listeners)));
    }
}

impl<T: Send + 'static, E: Send + 'static> Deliver for Hub<T, E> {
    fn deliver(block: Arc<SignalBlock<Self>>, _how: Delivery) {
        block.deliver_latest();
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Hub<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}
