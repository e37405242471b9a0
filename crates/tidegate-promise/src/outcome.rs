//! The outcome of a promise.

/// The outcome of a promise: success, failure or cancellation.
///
/// ```
/// use tidegate_promise::Outcome;
///
/// let outcome: Outcome<u32, String> = Outcome::Success(7);
/// assert_eq!(outcome.as_ref().success(), Some(&7));
/// assert!(!outcome.is_cancelled());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T, E> {
    /// The promise succeeded.
    Success(T),
    /// The promise failed.
    Failure(E),
    /// The promise was cancelled before it was completed.
    Cancelled,
}

impl<T, E> Outcome<T, E> {
    /// Returns the same outcome, borrowed.
    pub fn as_ref(&self) -> Outcome<&T, &E> {
        match self {
            Self::Success(value) => Outcome::Success(value),
            Self::Failure(cause) => Outcome::Failure(cause),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// Returns the value of a success.
    pub fn success(self) -> Option<T> {
        match self {
            Self::Success(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the cause of a failure.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failure(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns `true` if this is a success.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// Returns `true` if this is a cancellation.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl<T: Clone, E: Clone> Outcome<&T, &E> {
    /// Returns the same outcome, cloned.
    pub fn cloned(self) -> Outcome<T, E> {
        match self {
            Outcome::Success(value) => Outcome::Success(value.clone()),
            Outcome::Failure(cause) => Outcome::Failure(cause.clone()),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}
