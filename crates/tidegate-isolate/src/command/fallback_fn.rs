//! The function of a fallback: a command's, or that of one call. It returns a result or a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::CommandError;

/// The future of a fallback.
pub(super) type FallbackFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

type Function<E, R> = Arc<dyn Fn(&CommandError<E>) -> R + Send + Sync>;
type OwnFunction<E, R> = Box<dyn FnOnce(&CommandError<E>) -> R + Send>;

/// What the function of a fallback returns.
pub(super) enum FallbackOutput<T, E> {
    Ready(Result<T, E>),
    Future(FallbackFuture<T, E>),
}

/// The fallback of a command.
pub(super) enum Fallback<T, E> {
    Blocking(Function<E, Result<T, E>>),
    Async(Function<E, FallbackFuture<T, E>>),
}

impl<T, E> Fallback<T, E> {
    pub(super) fn is_async(&self) -> bool {
        matches!(self, Self::Async(_))
    }

    pub(super) fn call(&self, error: &CommandError<E>) -> FallbackOutput<T, E> {
        match self {
            Self::Blocking(fallback) => FallbackOutput::Ready(fallback(error)),
            Self::Async(fallback) => FallbackOutput::Future(fallback(error)),
        }
    }
}

/// The fallback of one call.
pub(super) enum OwnFallback<T, E> {
    Blocking(OwnFunction<E, Result<T, E>>),
    Async(OwnFunction<E, FallbackFuture<T, E>>),
}

impl<T, E> OwnFallback<T, E> {
    pub(super) fn is_async(&self) -> bool {
        matches!(self, Self::Async(_))
    }

    pub(super) fn call(self, error: &CommandError<E>) -> FallbackOutput<T, E> {
        match self {
            Self::Blocking(fallback) => FallbackOutput::Ready(fallback(error)),
            Self::Async(fallback) => FallbackOutput::Future(fallback(error)),
        }
    }
}
