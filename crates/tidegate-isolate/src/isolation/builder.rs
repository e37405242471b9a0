//! Builds an isolation from its clock, its property sources and its plug-ins.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use tidegate_core::{Clock, OnUnhandled, Unhandled};

use super::pools::{Pools, Strategy};
use super::registry::{Inner, Isolation};
use crate::alarm::CallTimer;
use crate::breaker::BreakerTransition;
use crate::bulkhead::{ConcurrencyStrategy, LimitMove};
use crate::error::ConfigError;
use crate::event::Event;
use crate::key::Key;
use crate::plugin::{CallStage, Install, Plugins, Restore};
use crate::properties::{ChangeListener, PropertySource, Sources};

impl Isolation {
    /// Creates a builder for an isolation.
    pub fn builder() -> IsolationBuilder {
        IsolationBuilder::default()
    }
}

/// Builds an [`Isolation`].
///
/// ```
/// use tidegate_isolate::Isolation;
/// use tidegate_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let isolation = Isolation::builder()
///     .clock(&clock)
///     .on_event(|command, event| println!("{command}: {event}"))
///     .build()?;
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Debug, Default)]
pub struct IsolationBuilder {
    clock: Clock,
    sources: Vec<Source>,
    plugins: Plugins,
    pools_by_group: bool,
    strategy: Option<Strategy>,
}

struct Source(Arc<dyn PropertySource>);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PropertySource")
    }
}

impl IsolationBuilder {
    /// Sets the clock that times the calls.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Adds a source of properties. If several sources have a property, the one added first wins.
    pub fn properties(mut self, source: impl PropertySource) -> Self {
        self.sources.push(Source(Arc::new(source)));
        self
    }

    /// Makes commands that name no pool share the threads of a pool with the key of their group, as
    /// in Hystrix. Without this setting each of them has a pool of its own.
    pub fn pools_by_group(mut self) -> Self {
        self.pools_by_group = true;
        self
    }

    /// Sets a function that supplies parts of each pool: its queue, its thread factory, its executor.
    /// It gets the key of the pool. A part that it does not supply is the built-in one.
    ///
    /// It is called before a pool is created, on the thread that builds or configures the command,
    /// and may be called more often than pools are created: parts that are not used are dropped. If
    /// it panics, that command is refused with an error.
    ///
    /// See [`ConcurrencyStrategy`] for the parts and their contracts. A part that breaks its contract
    /// is reported with its name ([`Unhandled::PartFailed`]). All other pools go on.
    pub fn concurrency_strategy(
        mut self,
        parts: impl Fn(&Key) -> ConcurrencyStrategy + Send + Sync + 'static,
    ) -> Self {
        self.strategy = Some(Strategy(Arc::new(parts)));
        self
    }

    /// Adds a hook: it runs at the stages of every call, on the thread that performs the stage. An
    /// error of the hook rejects the call at the stages where [`CallStage::may_refuse`] returns
    /// `true`.
    ///
    /// ```
    /// use tidegate_isolate::{CallStage, Isolation, Key};
    ///
    /// let isolation = Isolation::builder()
    ///     .hook(|stage: CallStage, command: &Key| match stage {
    ///         CallStage::Start if &**command == "legacy" => Err("not today".to_owned()),
    ///         _ => Ok(()),
    ///     })
    ///     .build()?;
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn hook(
        mut self,
        hook: impl Fn(CallStage, &Key) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.plugins.hooks.push(Arc::new(hook));
        self
    }

    /// Calls `listen` with every event of every call, on the thread where it happens.
    pub fn on_event(mut self, listen: impl Fn(&Key, Event) + Send + Sync + 'static) -> Self {
        self.plugins.on_event.push(Arc::new(listen));
        self
    }

    /// Calls `listen` at every state change of a breaker, on the thread whose call caused it. Two changes
    /// that two threads cause at nearly the same time may be told in the other order: their times say
    /// which was first.
    pub fn on_transition(
        mut self,
        listen: impl Fn(&BreakerTransition) + Send + Sync + 'static,
    ) -> Self {
        self.plugins.on_transition.push(Arc::new(listen));
        self
    }

    /// Calls `listen` at every move of an adaptive limit ([`AdaptiveLimit`](crate::AdaptiveLimit)):
    /// time, old and new limit, and the reason if the algorithm has one. It is called in the order of the
    /// moves of a limit, by one thread at a time: that of a call that caused a move, or a callback thread
    /// of the command after a timeout or a change of settings.
    ///
    /// ```
    /// use tidegate_isolate::Isolation;
    ///
    /// let isolation = Isolation::builder()
    ///     .on_limit_move(|change| println!("{}: {} to {}", change.key, change.from, change.to))
    ///     .build()?;
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn on_limit_move(mut self, listen: impl Fn(&LimitMove) + Send + Sync + 'static) -> Self {
        self.plugins.on_limit_move.push(Arc::new(listen));
        self
    }

    /// Calls `listen` once for every key, after the first command of the key was built: for example
    /// to publish its metrics.
    pub fn on_command_added(mut self, listen: impl Fn(&Key) + Send + Sync + 'static) -> Self {
        self.plugins.on_command_added.push(Arc::new(listen));
        self
    }

    /// Calls `listen` once for every pool, after it was created for the first command that uses its
    /// threads: for example to publish its metrics ([`Isolation::pool_snapshots`]). Runs on the
    /// thread that builds or configures the command.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Isolation, PoolConfig};
    ///
    /// let isolation = Isolation::builder()
    ///     .on_pool_added(|pool| println!("publish the figures of pool {pool}"))
    ///     .build()?;
    /// let prices: Command<u32, String> = Command::builder("prices")
    ///     .group("catalog")
    ///     .threads(PoolConfig::default())
    ///     .build(&isolation)?;
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn on_pool_added(mut self, listen: impl Fn(&Key) + Send + Sync + 'static) -> Self {
        self.plugins.on_pool_added.push(Arc::new(listen));
        self
    }

    /// Adds a propagator, which carries context from the calling thread to the thread that works
    /// for it: a thread of the bulkhead, or the thread that runs the fallback of a timed-out call.
    /// `capture` runs on the calling thread. The closure that it returns installs the context on
    /// the other thread, and the closure that this one returns restores the previous context there.
    ///
    /// A future needs no propagator: it is polled wherever its task runs, and its task carries the
    /// context.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use tidegate_isolate::Isolation;
    ///
    /// thread_local!(static USER: Cell<u32> = const { Cell::new(0) });
    ///
    /// let isolation = Isolation::builder()
    ///     .propagator(|| {
    ///         let user = USER.get();
    ///         move || {
    ///             let before = USER.replace(user);
    ///             move || USER.set(before)
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn propagator<I, R>(mut self, capture: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: FnOnce() -> R + Send + 'static,
        R: FnOnce() + 'static,
    {
        let capture = move || -> Install {
            let install = capture();
            Box::new(move || Box::new(install()) as Restore)
        };
        self.plugins.propagators.push(Arc::new(capture));
        self
    }

    /// Sets the hook for problems that no caller handles: panics of plug-ins and listeners, and
    /// pool sizes without effect. It receives the key that the problem is about, and runs on a thread
    /// of its own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hook))
    }

    /// Sets a hook that other components may share; the default is [`OnUnhandled::default`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.plugins.unhandled = hook;
        self
    }

    /// Builds the isolation.
    ///
    /// # Errors
    ///
    /// Returns an error if a source contains an unknown property name and does not declare that it
    /// accepts unknown names.
    pub fn build(self) -> Result<Isolation, ConfigError> {
        let mut sources = Vec::with_capacity(self.sources.len());
        for source in self.sources {
            sources.push(source.0);
        }
        let unhandled = &self.plugins.unhandled;
        let alarms = CallTimer::new(&self.clock, unhandled);
        let inner = Arc::new(Inner {
            pools: Arc::new(Pools::new(
                alarms.clock().clone(),
                unhandled.clone(),
                self.strategy,
            )),
            alarms,
            plugins: Arc::new(self.plugins),
            sources: Arc::new(Sources::new(sources)),
            states: Mutex::default(),
            removed: Arc::default(),
            pools_by_group: self.pools_by_group,
            names: Mutex::default(),
        });
        inner.sources.check_names()?;
        let weak: Weak<Inner> = Arc::downgrade(&inner);
        inner.sources.watch(|source| {
            let weak = weak.clone();
            let changed = move |name: &str| match weak.upgrade() {
                Some(inner) => inner.changed(source, name),
                None => Ok(()),
            };
            Arc::new(changed) as ChangeListener
        });
        Ok(Isolation { inner })
    }
}
