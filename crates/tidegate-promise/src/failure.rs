//! The default failure type of promises: an error that is cheap to clone, so that any number of
//! listeners can receive it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::CaughtPanic;

/// The default failure of a promise.
///
/// ```
/// use tidegate_promise::Failure;
///
/// let failure = Failure::new(std::io::Error::other("the disk is full"));
/// assert_eq!(failure.to_string(), "the disk is full");
/// assert!(failure.downcast_ref::<std::io::Error>().is_some());
/// let same = failure.clone(); // shares the cause
/// assert!(!same.is_panic());
/// ```
#[derive(Clone)]
pub struct Failure {
    cause: Arc<Cause>,
}

enum Cause {
    Error(Box<dyn Error + Send + Sync>),
    Panicked {
        by: Cow<'static, str>,
        message: String,
    },
    Abandoned,
    Cancelled,
}

/// The kind of a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// An error of the user's code.
    Error,
    /// The code that should have completed the promise, or a handler, panicked.
    Panicked,
    /// The promise was dropped without being completed.
    Abandoned,
    /// A promise that this one depends on was cancelled.
    Cancelled,
}

impl Failure {
    /// Creates a failure caused by `error`.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::from_cause(Cause::Error(error.into()))
    }

    /// Creates a failure caused by a panic, from the return value of `contain` or `catch_unwind`.
    /// The payload is dropped here; a panic in its `Drop` is contained.
    pub fn from_panic(panic: impl Into<CaughtPanic>) -> Self {
        Self::from_panic_of("the code that should complete the promise", panic)
    }

    /// Creates a failure caused by a panic like [`Failure::from_panic`]. Its text says which code
    /// panicked.
    ///
    /// ```
    /// use tidegate_promise::Failure;
    ///
    /// let panic = std::panic::catch_unwind(|| panic!("no ink")).unwrap_err();
    /// let failure = Failure::from_panic_of("handler `print`", panic);
    /// assert_eq!(failure.to_string(), "handler `print` panicked: no ink");
    /// ```
    pub fn from_panic_of(
        code: impl Into<Cow<'static, str>>,
        panic: impl Into<CaughtPanic>,
    ) -> Self {
        let (by, message) = (code.into(), panic.into().message().to_owned());
        Self::from_cause(Cause::Panicked { by, message })
    }

    /// Creates the failure of a promise that depends on a cancelled promise.
    pub fn cancelled() -> Self {
        Self::from_cause(Cause::Cancelled)
    }

    /// Returns the kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match *self.cause {
            Cause::Error(_) => FailureKind::Error,
            Cause::Panicked { .. } => FailureKind::Panicked,
            Cause::Abandoned => FailureKind::Abandoned,
            Cause::Cancelled => FailureKind::Cancelled,
        }
    }

    /// Returns `true` if a panic caused the failure.
    pub fn is_panic(&self) -> bool {
        self.kind() == FailureKind::Panicked
    }

    /// Returns `true` if the promise was dropped without being completed.
    pub fn is_abandoned(&self) -> bool {
        self.kind() == FailureKind::Abandoned
    }

    /// Returns the user's error if it caused the failure and is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match &*self.cause {
            Cause::Error(error) => error.downcast_ref(),
            _ => None,
        }
    }

    fn from_cause(cause: Cause) -> Self {
        Self {
            cause: Arc::new(cause),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.cause {
            Cause::Error(error) => error.fmt(f),
            Cause::Panicked { by, message } => write!(f, "{by} panicked: {message}"),
            Cause::Abandoned => fmt::Display::fmt(&AbandonedError, f),
            Cause::Cancelled => f.write_str("a promise that this one depends on was cancelled"),
        }
    }
}

/// Prints the `Display` text, because an error returned from `main` is printed with `Debug`.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.cause {
            Cause::Error(error) => error.source(),
            _ => None,
        }
    }
}

/// The error of a promise that was dropped without being completed. A custom failure type must
/// implement `From<AbandonedError>`.
///
/// ```
/// use tidegate_promise::{AbandonedError, promise_with_error};
///
/// #[derive(Debug, PartialEq)]
/// enum MyError { Gone }
/// impl From<AbandonedError> for MyError {
///     fn from(_: AbandonedError) -> Self { Self::Gone }
/// }
///
/// let (promise, answer) = promise_with_error::<u32, MyError>();
/// drop(promise);
/// assert_eq!(answer.wait().unwrap_err().failure(), Some(MyError::Gone));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AbandonedError;

impl fmt::Display for AbandonedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the promise was dropped before it was completed; complete it on every path")
    }
}

impl Error for AbandonedError {}

tidegate_core::debug_as_display!(AbandonedError);

impl From<AbandonedError> for Failure {
    fn from(_: AbandonedError) -> Self {
        Self::from_cause(Cause::Abandoned)
    }
}
