//! The builder of a command.

use std::any::TypeId;
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
use crate::isolation::state::Apply;
use crate::isolation::{CommandKeys, Isolation};
use crate::key::Key;
use crate::metrics::MetricsConfig;
use crate::properties::{COMMAND, Changes, CodeSettings, Family, HEALTH_INTERVAL, POOL};
use crate::rate::RateConfig;

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Creates a builder for a command with this key.
    pub fn builder(key: impl Into<Key>) -> CommandBuilder<T, E> {
        CommandBuilder::new(key.into())
    }
}

/// The builder of a [`Command`].
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
    /// Properties that were set in code, even if they were set to their default value.
    marks: Vec<(Family, &'static str)>,
    only_permits: bool,
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
            only_permits: false,
            fallback: None,
            is_bad_request: None,
        }
    }

    /// Sets the group that the command belongs to.
    pub fn group(mut self, group: impl Into<Key>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Shares the threads of the pool `pool` with all commands that name it. By default a command
    /// has a pool of its own, with the command's key as its name; see also
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

    /// Refuses threads for the life of the command: a property or a change in code that asks for them
    /// is an error, and the old value stays in force. For commands whose calls are admitted with
    /// [`Command::admit`], which run where they begin.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Isolation, Properties};
    ///
    /// let properties = Properties::new();
    /// let isolation = Isolation::builder().properties(properties.clone()).build()?;
    /// let prices: Command = Command::builder("prices")
    ///     .group("catalog")
    ///     .permits(20)
    ///     .only_permits()
    ///     .build(&isolation)?;
    /// let strategy = "hystrix.command.prices.execution.isolation.strategy";
    /// assert!(properties.set(strategy, "THREAD").is_err());
    /// assert!(prices.admit().is_ok());
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn only_permits(mut self) -> Self {
        self.only_permits = true;
        self
    }

    /// Adapts the limit to the latency of the calls that run on the callers' threads, or, after
    /// [`threads`](CommandBuilder::threads), of the calls that are queued or run on those threads.
    pub fn adaptive(mut self, limit: AdaptiveLimit) -> Self {
        self.config.permits.adaptive = Some(limit);
        self.mark(&["execution.isolation.strategy"])
    }

    /// Runs calls on the command's own threads, or on those of the pool that
    /// [`pool`](CommandBuilder::pool) names.
    pub fn threads(mut self, pool: PoolConfig) -> Self {
        self.config.bulkhead = Bulkhead::Threads;
        self.config.pool = pool;
        let all = POOL.iter().map(|property| (Family::Pool, property.name));
        self.marks.extend(all);
        self.mark(&["execution.isolation.strategy"])
    }

    /// Sets the timeout of calls, waiting included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = Some(timeout);
        self.mark(&[
            "execution.isolation.thread.timeoutInMilliseconds",
            "execution.timeout.enabled",
        ])
    }

    /// Removes the timeout of calls.
    pub fn no_timeout(mut self) -> Self {
        self.config.timeout = None;
        self.mark(&["execution.timeout.enabled"])
    }

    /// Sets the configuration of the circuit breaker.
    pub fn breaker(mut self, breaker: BreakerConfig) -> Self {
        self.config.breaker = breaker;
        self.mark_all(&["circuitBreaker.", HEALTH_INTERVAL])
    }

    /// Sets the rate limit: how many calls may begin per period.
    pub fn rate(mut self, rate: RateConfig) -> Self {
        self.config.rate = Some(rate);
        self
    }

    /// Sets the windows of the metrics.
    pub fn metrics(mut self, metrics: MetricsConfig) -> Self {
        self.config.metrics = metrics;
        self.mark_all(&["metrics.rolling"])
    }

    /// Changes any other setting. `change` runs twice, as for
    /// [`Command::configure`](crate::Command::configure).
    pub fn configure(mut self, change: impl FnOnce(&mut CommandConfig) + Clone) -> Self {
        let changes = Changes::new(self.config, change);
        let set = changes.properties();
        self.marks.extend(set.map(|one| (one.family, one.name)));
        self.config = changes.changed;
        self
    }

    /// Sets the fallback, which gives a value if the work fails, times out or is rejected. It
    /// receives the error.
    ///
    /// # Threads
    ///
    /// Runs on the caller's thread if the caller waits or the call is rejected at once, and on the
    /// polling thread if the work is a future. For a queued call it runs on a thread of the
    /// bulkhead, or, if the call was ended from outside, on a callback thread of the command. A
    /// fallback that does not return delays only calls of this command, and of commands that share
    /// its pool. It cannot be stopped, so
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
    /// A call of `run_async` awaits the future in its own task. Any other call blocks for it, on
    /// the thread on which a blocking fallback would run. On a thread that must not block, such as
    /// that of an event loop, the future is polled once. If it is not ready then, the fallback is
    /// refused with [`FallbackError::Waiting`](crate::FallbackError::Waiting).
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

    /// Sets which errors of the work mean that the caller's request is invalid. They are returned
    /// to the caller unchanged, without a fallback, and the breaker does not count them.
    pub fn bad_request_when<F>(mut self, is_bad_request: F) -> Self
    where
        F: Fn(&E) -> bool + Send + Sync + 'static,
    {
        self.is_bad_request = Some(Arc::new(is_bad_request));
        self
    }

    /// Builds the command. A second command with the same key shares the state of the first: its
    /// settings, bulkhead, breaker and metrics. Each has its own fallback and check for bad
    /// requests.
    ///
    /// # Errors
    ///
    /// Returns which property of which key is invalid, and why. Also fails if a command with this
    /// key exists and was built with other settings.
    pub fn build(self, isolation: &Isolation) -> Result<Command<T, E>, ConfigError> {
        let (keys, code_settings) = self.settings()?;
        let types = TypeId::of::<fn() -> (T, E)>();
        let state = isolation.state(keys, types, code_settings)?;
        Ok(Command {
            shared: Arc::new(Shared {
                state,
                fallback: self.fallback,
                is_bad_request: self.is_bad_request,
            }),
        })
    }

    /// Makes a command that has permits only, without registering it, or checks the settings for
    /// `before`, a command of this key: it keeps its state, unless a setting is new that is fixed for the
    /// life of a command. Returns the command, and what puts all of it in force, which cannot fail. If
    /// that is dropped, nothing has changed.
    ///
    /// # Errors
    ///
    /// Returns which property of which key is invalid, and why. Also fails if a command with this key
    /// exists that is not `before`, and was built with other settings.
    #[doc(hidden)]
    pub fn prepare(
        self,
        isolation: &Isolation,
        before: Option<&Command<T, E>>,
    ) -> Result<(Command<T, E>, Apply), ConfigError> {
        let own = self.only_permits();
        let (keys, code_settings) = own.settings()?;
        let before = before.map(|before| (before, &before.shared.state));
        if let Some((before, state)) = before.filter(|(_, state)| state.can_take(&code_settings)) {
            return Ok((before.clone(), state.prepare(code_settings)?));
        }
        let types = TypeId::of::<fn() -> (T, E)>();
        let old = before.map(|(_, state)| state);
        let (state, apply) = isolation.prepare(keys, types, code_settings, old)?;
        let command = Command {
            shared: Arc::new(Shared {
                state,
                fallback: own.fallback,
                is_bad_request: own.is_bad_request,
            }),
        };
        Ok((command, apply))
    }

    /// Returns the keys of the command, its group and its pool, and the settings made in code.
    fn settings(&self) -> Result<(CommandKeys, CodeSettings), ConfigError> {
        let key = self.key.clone();
        if key.trim().is_empty() {
            let reason = "a command needs a name; `Key::for_type` derives one from a type";
            return Err(ConfigError::new("(command)", "key", "blank", reason));
        }
        let Some(group) = self.group.clone() else {
            let reason = "a command needs a group of dependencies; set it with `group`";
            return Err(ConfigError::new(&key, "group", "missing", reason));
        };
        let mut code_settings = CodeSettings::new(self.config.clone());
        for (family, name) in &self.marks {
            code_settings.mark(*family, name);
        }
        if self.only_permits {
            code_settings.only_permits();
        }
        let pool = self.pool.clone();
        Ok((CommandKeys { key, group, pool }, code_settings))
    }

    /// Marks every setting of the command whose name begins with one of these.
    fn mark_all(self, prefixes: &[&str]) -> Self {
        let is_meant = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let names: Vec<_> = COMMAND
            .iter()
            .map(|one| one.name)
            .filter(is_meant)
            .collect();
        self.mark(&names)
    }

    fn mark(mut self, names: &[&'static str]) -> Self {
        let names = names.iter().map(|name| (Family::Command, *name));
        self.marks.extend(names);
        self
    }
}

debug_fields!([T, E] CommandBuilder<T, E>, this =>
    key: this.key, group: this.group, config: this.config);
