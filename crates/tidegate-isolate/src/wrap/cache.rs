//! A wrapper that shares one run among the calls of a request that have the same key.

use std::fmt;
use std::future::Future;

use crate::command::Call;
use crate::error::CommandError;

/// A wrapper that shares one run with all calls of a command that have the same key in the same
/// request, like [`Call::cache_key`]. Wrappers inside of it run once for all of these calls.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, RequestCache, RequestContext, Retry};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let request = RequestContext::new();
/// let _entered = request.enter();
///
/// let (cache, retry) = (RequestCache::key("sku-7"), Retry::attempts(3));
/// let price = || {
///     let whole = |call| retry.run(call, |attempt| attempt.run(|_cancel| Ok(42)));
///     cache.run(prices.call(), whole)
/// };
/// assert_eq!((price(), price()), (Ok(42), Ok(42)));
/// assert_eq!(prices.snapshot().totals[tidegate_isolate::Event::Success], 1);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
///
/// Errors are shared too: put retries inside of the cache, not around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestCache {
    key: String,
}

impl RequestCache {
    /// Creates a wrapper whose calls share the run for this key.
    pub fn key(key: impl fmt::Display) -> Self {
        let key = key.to_string();
        Self { key }
    }

    /// Runs `call` with `run`, unless another call with the key has a result or is in flight. Then
    /// waits for that result and returns a copy.
    ///
    /// # Errors
    ///
    /// Returns the error of `run`, or of the call whose run is shared. A call that belongs to no
    /// request is rejected.
    pub fn run<T, E>(
        &self,
        call: Call<T, E>,
        run: impl FnOnce(Call<T, E>) -> Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>>
    where
        T: Clone + Send + Sync + 'static,
        E: Clone + Send + Sync + 'static,
    {
        call.with_cache(|call| call.cache_key(&self.key).with_cache(run))
    }

    /// Runs `call` like [`RequestCache::run`], for a `run` that returns a future. If that future is
    /// dropped, the calls that share its run end as cancelled.
    #[must_use = "a future does nothing until it is polled"]
    pub fn run_async<T, E, F, W>(
        &self,
        call: Call<T, E>,
        run: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W>
    where
        T: Clone + Send + Sync + 'static,
        E: Clone + Send + Sync + 'static,
        F: FnOnce(Call<T, E>) -> W,
        W: Future<Output = Result<T, CommandError<E>>>,
    {
        let key = self.key.clone();
        call.with_cache_async(move |call| call.cache_key(key).with_cache_async(run))
    }
}
