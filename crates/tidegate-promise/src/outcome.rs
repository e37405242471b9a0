//! How a promise ended.

/// How something ended: exactly one of three ways.
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
    /// It succeeded.
    Success(T),
    /// It failed.
    Failure(E),
    /// It was cancelled before it was completed.
    Cancelled,
}

impl<T, E> Outcome<T, E> {
    /// The same outcome, borrowed.
    pub fn as_ref(&self) -> Outcome<&T, &E> {
        match self {
            Self::Success(value) => Outcome::Success(value),
            Self::Failure(cause) => Outcome::Failure(cause),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The value of a success.
    pub fn success(self) -> Option<T> {
        match self {
            Self::Success(value) => Some(value),
            _ => None,
        }
    }

    /// The cause of a failure.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failure(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether it succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl<T: Clone, E: Clone> Outcome<&T, &E> {
    /// The same outcome, owned.
    pub fn cloned(self) -> Outcome<T, E> {
        match self {
            Outcome::Success(value) => Outcome::Success(value.clone()),
            Outcome::Failure(cause) => Outcome::Failure(cause.clone()),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}
