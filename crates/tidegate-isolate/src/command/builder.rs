//! How a command is made.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::fallback_fn::{Fallback, FallbackFuture};
use super::handle::Command;
use super::shared::{IsBadRequest, Shared};
use crate::breaker::BreakerConfig;
use crate::bulkhead::{AdaptiveLimit, Bulkhead, PermitConfig, PoolConfig};
use crate::config::CommandConfig;
use crate::error::{CommandError, ConfigError};
use crate::isolation::Isolation;
use crate::key::Key;
use crate::metrics::MetricsConfig;
use crate::properties::{Family, POOL, Said};
use crate::rate::RateConfig;

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Begins to make a command of this key.
    pub fn builder(key: impl Into<Key>) -> CommandBuilder<T, E> {
        CommandBuilder::new(key.into())
    }
}

/// Makes a [`Command`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .permits(20)
///     .timeout(Duration::from_millis(250))
///     .fallback(|_why| Ok(0))
///     .build(&isolation)?;
/// assert_eq!(prices.key().as_str(), "prices");
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
pub struct CommandBuilder<T, E> {
    key: Key,
    group: Option<Key>,
    pool: Option<Key>,
    config: CommandConfig,
    /// Properties that were said although they have the value of the default.
    marks: Vec<(Family, &'static str)>,
    fallback: Option<Fallback<T, E>>,
    is_bad_request: Option<IsBadRequest<E>>,
}

impl<T: Send + 'static, E: Send + 'static> CommandBuilder<T, E> {
    fn new(key: Key) -> Self {
        Self {
            key,
            group: None,
            pool: None,
            config: CommandConfig::default(),
            marks: Vec::new(),
            fallback: None,
            is_bad_request: None,
        }
    }

    /// The group that the command belongs to.
    pub fn group(mut self, group: impl Into<Key>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Shares the threads of the pool `pool` with all commands that name it. Without it a command
    /// has a pool to itself, called like the command; see also
    /// [`IsolationBuilder::pools_by_group`](crate::IsolationBuilder::pools_by_group).
    pub fn pool(mut self, pool: impl Into<Key>) -> Self {
        self.pool = Some(pool.into());
        self
    }

    /// Runs calls on the callers' threads, bounded by permits: a number, or a [`PermitConfig`].
    pub fn permits(mut self, permits: impl Into<PermitConfig>) -> Self {
        self.config.bulkhead = Bulkhead::Permits;
        self.config.permits = permits.into();
        self.mark(&[
            "execution.isolation.strategy",
            "execution.isolation.semaphore.maxConcurrentRequests",
        ])
    }

    /// Lets the limit follow the latency: of the calls that run on the callers' threads, or, after
    /// [`threads`](CommandBuilder::threads), of those that are queued or run there.
    pub fn adaptive(mut self, limit: AdaptiveLimit) -> Self {
        self.config.permits.adaptive = Some(limit);
        self.mark(&["execution.isolation.strategy"])
    }

    /// Runs on threads of its own, or of the pool that [`pool`](CommandBuilder::pool) names.
    pub fn threads(mut self, pool: PoolConfig) -> Self {
        self.config.bulkhead = Bulkhead::Threads;
        self.config.pool = pool;
        let all = POOL.iter().map(|property| (Family::Pool, property.name));
        self.marks.extend(all);
        self.mark(&["execution.isolation.strategy"])
    }

    /// How long a call may take, waiting included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = Some(timeout);
        self.mark(&[
            "execution.isolation.thread.timeoutInMilliseconds",
            "execution.timeout.enabled",
        ])
    }

    /// Calls may take as long as they like.
    pub fn no_timeout(mut self) -> Self {
        self.config.timeout = None;
        self.mark(&["execution.timeout.enabled"])
    }

    /// The circuit breaker.
    pub fn breaker(mut self, breaker: BreakerConfig) -> Self {
        self.config.breaker = breaker;
        self.mark(&[
            "circuitBreaker.enabled",
            "circuitBreaker.requestVolumeThreshold",
            "circuitBreaker.sleepWindowInMilliseconds",
            "circuitBreaker.errorThresholdPercentage",
            "circuitBreaker.forceOpen",
            "circuitBreaker.forceClosed",
            "circuitBreaker.window.timeInMilliseconds",
            "circuitBreaker.window.calls",
            "metrics.healthSnapshot.intervalInMilliseconds",
        ])
    }

    /// How many calls may begin in a time.
    pub fn rate(mut self, rate: RateConfig) -> Self {
        self.config.rate = Some(rate);
        self
    }

    /// The windows of the metrics.
    pub fn metrics(mut self, metrics: MetricsConfig) -> Self {
        self.config.metrics = metrics;
        self.mark(&[
            "metrics.rollingStats.timeInMilliseconds",
            "metrics.rollingStats.numBuckets",
            "metrics.rollingPercentile.enabled",
            "metrics.rollingPercentile.timeInMilliseconds",
            "metrics.rollingPercentile.numBuckets",
        ])
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut CommandConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Answers in place of the work when it fails, times out or is refused. Gets the reason.
    ///
    /// # Threads
    ///
    /// Runs on the caller's thread if it waits, on a thread of the bulkhead, or, where a call that
    /// nobody waits for was ended from outside, on one that the command has for that. One that does
    /// not return delays calls of this command only. It cannot be stopped, so
    /// [`fallback_timeout`](CommandBuilder::fallback_timeout) does not apply to it.
    pub fn fallback<F>(mut self, fallback: F) -> Self
    where
        F: Fn(&CommandError<E>) -> Result<T, E> + Send + Sync + 'static,
    {
        self.fallback = Some(Fallback::Blocking(Arc::new(fallback)));
        self
    }

    /// Sets a fallback that is a future, in place of any other. It has a timeout; see
    /// [`fallback_timeout`](CommandBuilder::fallback_timeout).
    ///
    /// # Threads
    ///
    /// A call of `run_async` awaits the future in its own task. Any other call blocks for it, on the
    /// thread on which a blocking fallback would run. On a thread that must not block, such as that
    /// of an event loop, the future is polled once. If it is not ready then, the fallback is refused
    /// with [`FallbackError::Waiting`](crate::FallbackError::Waiting).
    pub fn fallback_async<F, W>(mut self, fallback: F) -> Self
    where
        F: Fn(&CommandError<E>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let fallback =
            move |error: &CommandError<E>| -> FallbackFuture<T, E> { Box::pin(fallback(error)) };
        self.fallback = Some(Fallback::Async(Arc::new(fallback)));
        self
    }

    /// Sets how long a fallback that is a future may take; one second by default. When the time is
    /// over, the future is dropped and the call fails.
    pub fn fallback_timeout(mut self, timeout: Duration) -> Self {
        self.config.fallback_timeout = Some(timeout);
        self.mark(&["fallback.timeoutInMilliseconds"])
    }

    /// Says which errors of the work mean that the caller is wrong: they go to the caller as
    /// they are, without a fallback, and no breaker hears of them.
    pub fn bad_request_when<F>(mut self, is_bad_request: F) -> Self
    where
        F: Fn(&E) -> bool + Send + Sync + 'static,
    {
        self.is_bad_request = Some(Arc::new(is_bad_request));
        self
    }

    /// Makes the command. A second one of the same key shares everything with the first.
    ///
    /// # Errors
    ///
    /// Which property of which key makes no sense, and why; also when a command of this key
    /// exists and was built with other settings.
    pub fn build(self, isolation: &Isolation) -> Result<Command<T, E>, ConfigError> {
        let key = self.key;
        if key.trim().is_empty() {
            let reason = "a command needs a name; `Key::for_type` makes one of a type's";
            return Err(ConfigError::new("(command)", "key", "blank", reason));
        }
        let Some(group) = self.group else {
            let reason = "say which group of dependencies the command belongs to";
            return Err(ConfigError::new(&*key, "group", "missing", reason));
        };
        let mut said = Said::new(self.config);
        for (family, name) in self.marks {
            said.mark(family, name);
        }
        let types = TypeId::of::<fn() -> (T, E)>();
        let state = isolation.state(key, group, self.pool, types, said)?;
        Ok(Command {
            shared: Arc::new(Shared {
                state,
                fallback: self.fallback,
                is_bad_request: self.is_bad_request,
            }),
        })
    }

    fn mark(mut self, names: &[&'static str]) -> Self {
        let names = names.iter().map(|name| (Family::Command, *name));
        self.marks.extend(names);
        self
    }
}

impl<T, E> fmt::Debug for CommandBuilder<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandBuilder")
            .field("key", &self.key)
            .field("group", &self.group)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
