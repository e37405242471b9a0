//! Builds an isolation from its clock, its property sources and its plug-ins.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use tidegate_core::{Clock, OnUnhandled, Unhandled};

use super::pools::Pools;
use super::registry::{Inner, Isolation};
use crate::alarm::CallTimer;
use crate::breaker::BreakerTransition;
use crate::error::ConfigError;
use crate::event::Event;
use crate::key::Key;
use crate::plugin::{Hook, MetricsPublisher, Plugins, Propagator};
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

    /// Adds a hook around every call.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.plugins.hooks.push(Arc::new(hook));
        self
    }

    /// Calls `listen` with every event of every call, on the thread where it happens.
    pub fn on_event(mut self, listen: impl Fn(&Key, Event) + Send + Sync + 'static) -> Self {
        self.plugins.on_event.push(Arc::new(listen));
        self
    }

    /// Calls `listen` at every state change of a breaker, on the thread whose call caused it.
    pub fn on_transition(
        mut self,
        listen: impl Fn(&BreakerTransition) + Send + Sync + 'static,
    ) -> Self {
        self.plugins.on_transition.push(Arc::new(listen));
        self
    }

    /// Adds a publisher. It is notified of every key once.
    pub fn publisher(mut self, publisher: impl MetricsPublisher) -> Self {
        self.plugins.publishers.push(Arc::new(publisher));
        self
    }

    /// Adds a propagator, which carries context from the calling thread to the worker thread.
    pub fn propagator(mut self, propagator: impl Propagator) -> Self {
        self.plugins.propagators.push(Arc::new(propagator));
        self
    }

    /// Sets the hook for problems that no caller handles: panics of plug-ins and listeners, and
    /// settings without effect. It receives the key that the problem is about, and runs on a thread
    /// of its own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hear: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hear))
    }

    /// Sets a hook that other components may share; the default is [`OnUnhandled::stderr`].
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
        let sources = self.sources.into_iter().map(|source| source.0).collect();
        let unhandled = &self.plugins.unhandled;
        let alarms = CallTimer::new(&self.clock, unhandled);
        let inner = Arc::new(Inner {
            pools: Arc::new(Pools::new(alarms.clock().clone(), unhandled.clone())),
            alarms,
            plugins: Arc::new(self.plugins),
            sources: Arc::new(Sources::new(sources)),
            states: Mutex::default(),
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
