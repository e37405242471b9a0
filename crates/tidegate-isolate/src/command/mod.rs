//! Commands: a dependency with everything that protects the program from it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::CancelToken;
use tidegate_promise::Completion;

use crate::isolation::CommandSnapshot;
use crate::{CommandConfig, Invalid, Key};

mod builder;
mod cache;
mod call;
mod future;
mod hit;
mod outcome;
mod run;
mod surroundings;
mod threads;
mod trip;

pub use self::builder::CommandBuilder;
pub use self::call::Call;
pub use self::future::RunAsync;

use self::call::{Asked, Options};
use crate::Event;
use crate::alarm::{Alarms, Aside};
use crate::error::CommandError;
use crate::isolation::state::{State, THREADS};
use crate::properties::Sources;
use crate::request::RequestContext;

type Fallback<T, E> = Arc<dyn Fn(&CommandError<E>) -> Result<T, E> + Send + Sync>;
type IsBadRequest<E> = Arc<dyn Fn(&E) -> bool + Send + Sync>;

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
pub struct Command<T, E> {
    shared: Arc<Shared<T, E>>,
}

struct Shared<T, E> {
    state: Arc<State>,
    fallback: Option<Fallback<T, E>>,
    is_bad_request: Option<IsBadRequest<E>>,
}

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Begins to make a command of this key.
    pub fn builder(key: impl Into<Key>) -> CommandBuilder<T, E> {
        CommandBuilder::new(key.into())
    }

    /// Runs `work` behind the bulkhead and waits for its answer.
    ///
    /// # Errors
    ///
    /// Why there is no answer; see [`CommandError`].
    ///
    /// # Threads
    ///
    /// With permits the work runs on the calling thread. A work that passes its deadline has its
    /// token tripped, and the call ends as timed out when the work returns: only the thread
    /// bulkhead can leave it behind.
    #[inline]
    pub fn run<F>(&self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        if self.shared.state.flags() & THREADS != 0 {
            return self.shared.run_on_threads(&mut Options::default(), work);
        }
        self.shared.run_in_place(Asked::NOTHING, work)
    }

    /// Runs `work` on the calling thread and waits for its answer; the work may borrow. For
    /// commands with permits.
    ///
    /// # Errors
    ///
    /// As for [`Command::run`]; a command with threads of its own refuses.
    #[inline]
    pub fn run_in_place<F>(&self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        self.shared.run_in_place(Asked::NOTHING, work)
    }

    /// Runs `work` behind the bulkhead. With permits it runs before this returns.
    pub fn queue<F>(&self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        self.call().queue(work)
    }

    /// Runs the future that `work` makes, with permits, as part of the answer. It begins when
    /// the answer is first polled. A command with threads refuses: it would run outside of them.
    ///
    /// # Cancellation
    ///
    /// Dropping the answer drops the future, trips its token and gives the permit back.
    pub fn run_async<F, W>(&self, work: F) -> RunAsync<T, E, F, W>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        self.call().run_async(work)
    }

    /// Begins a call that differs from the others.
    #[inline]
    pub fn call(&self) -> Call<'_, T, E> {
        Call::new(self)
    }

    /// Changes the settings, all together and at once.
    ///
    /// # Errors
    ///
    /// Which property makes no sense, and why. The old settings then stay in force.
    pub fn configure(&self, change: impl FnOnce(&mut CommandConfig)) -> Result<(), Invalid> {
        self.shared.state.configure(change)
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<CommandConfig> {
        self.shared.state.config()
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.shared.state.key
    }

    /// The group.
    pub fn group(&self) -> &Key {
        &self.shared.state.group
    }

    /// The key of the pool that its threads come from.
    pub fn pool(&self) -> &Key {
        &self.shared.state.pool
    }

    pub(crate) fn sources(&self) -> &Arc<Sources> {
        &self.shared.state.sources
    }

    /// Where user code of the command runs that no caller runs.
    pub(crate) fn aside(&self) -> &Arc<Aside> {
        &self.shared.state.aside
    }

    pub(crate) fn alarms(&self) -> &Alarms {
        &self.shared.state.alarms
    }

    /// Whether its isolation was stopped or shut down: a new attempt would come after the end.
    pub(crate) fn is_shut_down(&self) -> bool {
        let state = &*self.shared.state;
        state.alarms.is_closed() || state.pools.is_shut_down()
    }

    /// Forgets what this command has cached for `key` in a request; false if there was nothing.
    pub fn clear_cached(&self, request: &RequestContext, key: impl fmt::Display) -> bool {
        let state = &*self.shared.state;
        let key = key.to_string();
        request.forget(state.cache_owner, (&state.key, &key), |_| true)
    }

    /// Counts an event that belongs to no single call.
    pub(crate) fn count(&self, event: Event) {
        let state = &*self.shared.state;
        state.metrics.count(state.now(), event);
        state.plugins.event(&state.key, event);
    }

    /// Reports user code that panicked, of which no caller hears.
    pub(crate) fn panicked(&self, message: &str) {
        let state = &*self.shared.state;
        state.plugins.panicked(&state.key, message);
    }

    /// Tries the fallback for a call that went without one.
    pub(crate) fn fall_back_from(&self, error: CommandError<E>) -> Result<T, CommandError<E>> {
        self.shared.fall_back_from(&mut Options::default(), error)
    }

    /// How it is doing.
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

impl<T, E> fmt::Debug for Command<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("key", &self.shared.state.key)
            .finish_non_exhaustive()
    }
}
