//! The handle of a command: gives access to its keys, its settings and its metrics.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::alarm::{CallTimer, CallbackThreads};
use crate::config::CommandConfig;
use crate::error::ConfigError;
use crate::event::Event;
use crate::isolation::CommandSnapshot;
use crate::isolation::state::THREADS;
use crate::key::Key;
use crate::metrics::Distribution;
use crate::properties::{Settings, Sources};
use crate::request::RequestContext;

/// A dependency behind its bulkhead. Long-lived: built once, called often. Clones are handles to
/// the same command.
///
/// ```
/// use tidegate_isolate::{Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, std::io::Error> = Command::builder("prices")
///     .group("catalog")
///     .permits(10)
///     .build(&isolation)?;
/// let price = prices.run(|_cancel| Ok(42))?;
/// assert_eq!(price, 42);
/// prices.configure(|c| c.permits.limit = 20)?;
/// println!("{}", prices.snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without types, `Command` is a command that makes no calls with a closure: one for
/// [`Command::admit`], or for a layer of `tidegate-tower`.
pub struct Command<T = (), E = Infallible> {
    pub(super) shared: Arc<Shared<T, E>>,
}

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Changes the settings. `change` receives those in force. All changes take effect together, and
    /// count as made in code: a property of the command still has precedence.
    ///
    /// `change` runs twice, the second time on other settings whose result is dropped. So a setting that
    /// it sets to the value in force counts as made in code too.
    ///
    /// # Errors
    ///
    /// Returns which property is invalid, and why. The old settings then stay in force.
    pub fn configure(
        &self,
        change: impl FnOnce(&mut CommandConfig) + Clone,
    ) -> Result<(), ConfigError> {
        self.shared.state.configure(change)
    }

    /// Returns the settings in force.
    pub fn config(&self) -> Arc<CommandConfig> {
        self.shared.state.config()
    }

    /// Returns the timeout of calls that is in force; `None` if they have none. For handlers with timers
    /// of their own: this is cheaper than [`config`](Command::config), and can be read for each call.
    #[inline]
    pub fn timeout(&self) -> Option<Duration> {
        let nanos = self.shared.state.timeout();
        (nanos != u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// Closes the breaker and forgets what it has counted, for example after a dependency was
    /// repaired. Its mode stays.
    ///
    /// # Threads
    ///
    /// Listeners of the transition run on the calling thread.
    pub fn reset_breaker(&self) {
        self.shared.state.reset_breaker();
    }

    /// Returns every setting in force and its origin, those of the command's pool included. Reads
    /// the properties again.
    pub fn settings(&self) -> Settings {
        self.shared.state.settings()
    }

    /// Returns the key.
    pub fn key(&self) -> &Key {
        &self.shared.state.key
    }

    /// Returns the group.
    pub fn group(&self) -> &Key {
        &self.shared.state.group
    }

    /// Returns the key of the pool that provides the command's threads.
    pub fn pool(&self) -> &Key {
        &self.shared.state.pool
    }

    pub(crate) fn sources(&self) -> &Arc<Sources> {
        &self.shared.state.sources
    }

    /// Returns the threads for user code of the command that runs on no caller's thread.
    pub(crate) fn aside(&self) -> &Arc<CallbackThreads> {
        &self.shared.state.aside
    }

    /// Returns `true` if calls run on threads of their own.
    pub(crate) fn has_threads(&self) -> bool {
        self.shared.state.flags() & THREADS != 0
    }

    pub(crate) fn alarms(&self) -> &CallTimer {
        &self.shared.state.alarms
    }

    /// Returns `true` if the isolation was stopped or shut down: no new attempt may begin.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shared.state.is_shut_down()
    }

    /// Removes the result that this command has cached for `key` in a request. Returns `false` if
    /// there was none.
    pub fn clear_cached(&self, request: &RequestContext, key: impl fmt::Display) -> bool {
        let state = &*self.shared.state;
        let key = key.to_string();
        request.forget(state.cache_owner, (&state.key, &key), |_| true)
    }

    /// Returns the recent latencies of calls, from the call to its end.
    pub(crate) fn total_latencies(&self) -> Distribution {
        let state = &*self.shared.state;
        state.metrics.latencies(state.now()).total
    }

    /// Counts an event that belongs to no single call, or to one whose fallback its holder makes.
    #[doc(hidden)]
    pub fn count(&self, event: Event) {
        let state = &*self.shared.state;
        state.metrics.count(state.now(), event);
        state.plugins.event(&state.key, event);
    }

    /// Reports a panic of user code that no caller sees.
    pub(crate) fn panicked(&self, message: &str) {
        let state = &*self.shared.state;
        state.plugins.panicked(&state.key, message);
    }

    /// Returns the current figures of the command.
    pub fn snapshot(&self) -> CommandSnapshot {
        CommandSnapshot::of(&self.shared.state)
    }
}

impl<T, E> Clone for Command<T, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

debug_fields!([T, E] Command<T, E>, this => key: this.shared.state.key);
