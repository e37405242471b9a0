//! A wrapper that applies a rate limit to calls.

use std::future::Future;
use std::sync::Arc;

use crate::command::Call;
use crate::error::{Cause, CommandError, ConfigError, Rejection};
use crate::key::Key;
use crate::rate::{RateConfig, TokenBucket};

/// A rate limit around calls of any commands, such as those of a tenant, or of several commands
/// together. Clones are handles to the same limit.
///
/// [`CommandBuilder::rate`](crate::CommandBuilder::rate) limits one command, and each attempt of a
/// retry takes a token there. Around a retry, this wrapper takes one token for the whole call.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Command, Isolation, RateConfig, RateLimit};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let tenant = RateLimit::new(RateConfig { calls: 1, per: Duration::from_secs(60), burst: 1 })?;
///
/// let price = || tenant.run(prices.call(), |call| call.run(|_cancel| Ok(42)));
/// assert_eq!(price(), Ok(42));
/// assert!(price().is_err_and(|error| error.retry_after().is_some()));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit {
    bucket: Arc<TokenBucket>,
}

impl RateLimit {
    /// Creates a limit with these settings.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    pub fn new(config: RateConfig) -> Result<Self, ConfigError> {
        config.validate(&Key::from("(rate limit)"))?;
        let bucket = Arc::new(TokenBucket::new(&config));
        Ok(Self { bucket })
    }

    /// Runs `call` with `run`, if there is a token for it.
    ///
    /// # Errors
    ///
    /// Returns the error of `run`. Without a token, the call is rejected with the time after which
    /// a token is available, and its fallback is tried.
    pub fn run<T: Send + 'static, E: Send + 'static>(
        &self,
        call: Call<T, E>,
        run: impl FnOnce(Call<T, E>) -> Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>> {
        call.with_cache(|call| match self.bucket.try_take(call.now()) {
            Ok(()) => run(call),
            Err(after) => call.deny(Cause::Rejected(Rejection::Rate(after))),
        })
    }

    /// Runs `call` like [`RateLimit::run`], for a `run` that returns a future. The token is taken
    /// at the first poll.
    #[must_use = "a future does nothing until it is polled"]
    pub fn run_async<T, E, F, W>(
        &self,
        call: Call<T, E>,
        run: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(Call<T, E>) -> W,
        W: Future<Output = Result<T, CommandError<E>>>,
    {
        let bucket = Arc::clone(&self.bucket);
        call.with_cache_async(move |call| async move {
            match bucket.try_take(call.now()) {
                Ok(()) => run(call).await,
                Err(after) => {
                    let cause = Cause::Rejected(Rejection::Rate(after));
                    call.deny_async(cause).await
                }
            }
        })
    }
}
