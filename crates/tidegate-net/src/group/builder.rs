//! The builder of a group.

use std::sync::Arc;

use tidegate_core::{Clock, OnUnhandled, ThreadBuilder, Unhandled};
use tidegate_loop::{
    BuildError, Choose, EventLoopGroup, EventLoopGroupBuilder, RejectPolicy, Scaling, TurnBudget,
};

use super::net_group::NetGroup;
use super::roaming::RoamingSettings;
use crate::local::LocalNetwork;
use crate::reactor::PollDriver;
use crate::sys::SystemPoller;

/// The builder of a [`NetGroup`]. Ends with [`build`](NetGroupBuilder::build) for pinned loops, or
/// with `build_roaming` for roaming ones.
///
/// ```
/// use tidegate_core::OnUnhandled;
/// use tidegate_loop::Choose;
/// use tidegate_net::NetGroup;
///
/// let hook = OnUnhandled::new(|place, what| println!("{place}: {what}"));
/// let group = NetGroup::builder("io").loops(2).choose(Choose::LessBusy).report_to(hook).build()?;
/// assert_eq!(group.io_metrics().len(), 2);
/// # Ok::<(), tidegate_loop::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct NetGroupBuilder {
    pub(super) name: String,
    pub(super) loops: EventLoopGroupBuilder,
    pub(super) roaming: RoamingSettings,
    pub(super) network: Option<LocalNetwork>,
}

impl NetGroup {
    /// Returns the builder of a group whose event loops are called `name-0`, `name-1` and so on.
    pub fn builder(name: impl Into<String>) -> NetGroupBuilder {
        let name = name.into();
        NetGroupBuilder {
            loops: EventLoopGroup::builder(name.clone()),
            name,
            roaming: RoamingSettings::default(),
            network: None,
        }
    }
}

impl NetGroupBuilder {
    /// Sets the number of event loops; 0, the default, means twice the number of processors.
    pub fn loops(self, loops: usize) -> Self {
        self.with_loops(|builder| builder.loops(loops))
    }

    /// Sets how the loop of the next connection is chosen.
    pub fn choose(self, how: Choose) -> Self {
        self.with_loops(|builder| builder.choose(how))
    }

    /// Makes the number of active event loops follow the load.
    pub fn scaling(self, scaling: Scaling) -> Self {
        self.with_loops(|builder| builder.scaling(scaling))
    }

    /// Sets the clock of the event loops and of everything that they time.
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.with_loops(|builder| builder.clock(clock))
    }

    /// Sets how many tasks may wait on each event loop.
    pub fn bound(self, tasks: usize) -> Self {
        self.with_loops(|builder| builder.bound(tasks))
    }

    /// Sets what happens to a task that a full event loop has no room for.
    pub fn reject(self, policy: RejectPolicy) -> Self {
        self.with_loops(|builder| builder.reject(policy))
    }

    /// Sets how the threads of pinned event loops are started.
    pub fn threads(self, threads: ThreadBuilder) -> Self {
        self.with_loops(|builder| builder.threads(threads))
    }

    /// Sets the hook for unhandled errors: panics on the loops, errors that no handler takes,
    /// connections that were cut.
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.with_loops(|builder| builder.on_unhandled(hook))
    }

    /// Sets a hook for unhandled errors that others share.
    pub fn report_to(self, hook: OnUnhandled) -> Self {
        self.with_loops(|builder| builder.report_to(hook))
    }

    /// Sets whether the duration of each task is measured.
    pub fn time_tasks(self, yes: bool) -> Self {
        self.with_loops(|builder| builder.time_tasks(yes))
    }

    /// Sets how long a turn spends on timers, tasks and I/O.
    pub fn turn_budget(self, budget: TurnBudget) -> Self {
        self.with_loops(|builder| builder.turn_budget(budget))
    }

    /// Makes clients connect, and servers listen, on `network` instead of with TCP sockets. Unix
    /// sockets, UDP, and sockets that the program passes in are not affected. For tests.
    #[doc(hidden)]
    pub fn local_network(mut self, network: &LocalNetwork) -> Self {
        self.network = Some(network.clone());
        self
    }

    fn with_loops(
        mut self,
        set: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        self.loops = set(self.loops);
        self
    }

    /// Builds pinned event loops, each on a thread of its own that a channel never leaves. See
    /// [`pinned`](crate::pinned).
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings contradict each other or a poller cannot be created.
    pub fn build(self) -> Result<NetGroup, BuildError> {
        let (mut watches, mut inboxes) = (Vec::new(), Vec::new());
        let loops = self.loops.build_with_driver(|_| {
            let driver = PollDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            inboxes.push(Arc::clone(driver.inbox()));
            Ok(driver)
        })?;
        let mut group = NetGroup::new(loops, watches, Vec::new(), &inboxes);
        group.network = self.network;
        Ok(group)
    }
}
