//! Groups of loops with I/O.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::OnUnhandled;
use tidegate_loop::{
    BuildError, EventLoopGroup, EventLoopGroupBuilder, Pinned, Placement, Roaming, RoamingConfig,
};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{Counts, Monitor};

use crate::group::LoopTarget;
use crate::metrics::IoMetrics;
use crate::reactor::{IoWatch, PollDriver, RoamingDriver, RoamingShared};
use crate::sys::SystemPoller;

/// Creates `loops` event loops with I/O, each on a thread of its own that a channel never leaves; 0
/// means twice the processors.
///
/// # Errors
///
/// [`BuildError`] if a poller cannot be created.
///
/// ```
/// let group = tidegate_net::pinned("io", 2)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), tidegate_loop::BuildError>(())
/// ```
pub fn pinned(name: impl Into<String>, loops: usize) -> Result<NetGroup, BuildError> {
    pinned_with(name, loops, OnUnhandled::stderr())
}

/// Creates a group like [`pinned`], with a hook for unhandled errors: panics on the loops, errors
/// that no handler takes, connections that were cut.
///
/// # Errors
///
/// As for [`pinned`].
///
/// ```
/// use tidegate_core::OnUnhandled;
///
/// let hook = OnUnhandled::new(|place, what| println!("{place}: {what}"));
/// let group = tidegate_net::pinned_with("io", 2, hook)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), tidegate_loop::BuildError>(())
/// ```
pub fn pinned_with(
    name: impl Into<String>,
    loops: usize,
    hook: OnUnhandled,
) -> Result<NetGroup, BuildError> {
    NetGroup::build(EventLoopGroup::builder(name).loops(loops).report_to(hook))
}

/// Creates `loops` event loops with I/O on the threads of `workers`. A channel moves to the thread
/// that runs its handlers, and while one of them blocks, another thread goes on with the loop. The
/// strategy is [`Adaptive`](tidegate_pool::strategy::Adaptive) with late hand-over.
///
/// Each loop keeps one thread of the pool; the others are for handlers that block. If all the
/// others are blocked, the monitor's own threads keep the loops going, and handlers run as long as
/// one thread of the pool is not blocked. End the loops before the pool.
///
/// # Errors
///
/// [`BuildError`] if the pool is too small for so many loops, or if a poller or the monitor's
/// thread cannot be created.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
/// let group = tidegate_net::roaming("io", 2, &workers)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn roaming(
    name: impl Into<String>,
    loops: usize,
    workers: &WorkerPool,
) -> Result<NetGroup<Roaming>, BuildError> {
    roaming_with(name, loops, workers, OnUnhandled::stderr())
}

/// Creates a group like [`roaming`], with a hook for unhandled errors like that of [`pinned_with`].
/// Errors of the pool's own jobs go to the pool's hook.
///
/// # Errors
///
/// As for [`roaming`].
///
/// ```
/// use tidegate_pool::WorkerPool;
/// use tidegate_core::OnUnhandled;
///
/// let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
/// let hook = OnUnhandled::new(|place, what| println!("{place}: {what}"));
/// let group = tidegate_net::roaming_with("io", 2, &workers, hook)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn roaming_with(
    name: impl Into<String>,
    loops: usize,
    workers: &WorkerPool,
    hook: OnUnhandled,
) -> Result<NetGroup<Roaming>, BuildError> {
    let name = name.into();
    let monitor = Monitor::start(&name).map_err(BuildError::Driver)?;
    let builder = EventLoopGroup::builder(name).loops(loops).report_to(hook);
    NetGroup::build_over(builder.roaming(), workers, Some(&monitor))
}

/// Event loops with I/O, on which channels live for good, or with which they roam.
///
/// Clones are handles of the same loops. The loops end with the last clone, and their channels with
/// them: a [`Channel`](crate::Channel) does not keep its loop running, so hold the group as long as
/// the connections that a [`Client`](crate::Client) made. A bound [`Server`](crate::Server) keeps
/// its own clone.
///
/// ```
/// use tidegate_loop::{Choose, EventLoopGroup};
/// use tidegate_net::NetGroup;
///
/// let loops = EventLoopGroup::builder("io").loops(2).choose(Choose::LessBusy);
/// let group = NetGroup::build(loops)?;
/// assert_eq!(group.io_metrics().len(), 2);
/// # Ok::<(), tidegate_loop::BuildError>(())
/// ```
pub struct NetGroup<P: Placement = Pinned> {
    loops: EventLoopGroup<P>,
    watches: Arc<[IoWatch]>,
    /// One for each roaming loop.
    roams: Arc<[Arc<RoamingShared>]>,
}

impl NetGroup {
    /// Creates the loops that `builder` describes, each with a poller.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the description contradicts itself or a poller cannot be created.
    pub fn build(builder: EventLoopGroupBuilder) -> Result<Self, BuildError> {
        let mut watches = Vec::new();
        let loops = builder.build_with(|_| {
            let driver = PollDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            Ok(driver)
        })?;
        Ok(Self {
            loops,
            watches: watches.into(),
            roams: Arc::new([]),
        })
    }
}

impl NetGroup<Roaming> {
    /// Creates the loops that `builder` describes, each with a poller, on the threads of `workers`.
    /// With a monitor they hand over late.
    ///
    /// # Errors
    ///
    /// As for [`roaming`].
    pub fn build_over(
        builder: EventLoopGroupBuilder<Roaming>,
        workers: &WorkerPool,
        monitor: Option<&Monitor>,
    ) -> Result<Self, BuildError> {
        let crew = RoamingConfig::of(Arc::new(workers.clone()));
        let crew = match monitor {
            Some(monitor) => crew.late(monitor),
            None => crew,
        };
        Self::build_with_config(builder, &crew)
    }

    /// Creates the loops that `builder` describes, each with a poller, as `config` says. For the
    /// benchmarks of this workspace: unstable.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the description contradicts itself or a poller cannot be created.
    #[doc(hidden)]
    pub fn build_with_config(
        builder: EventLoopGroupBuilder<Roaming>,
        config: &RoamingConfig,
    ) -> Result<Self, BuildError> {
        let (mut watches, mut roams) = (Vec::new(), Vec::new());
        let loops = builder.build_over(config, |_| {
            let driver = RoamingDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            roams.push(Arc::clone(driver.roam()));
            Ok(driver)
        })?;
        for (one, roam) in loops.iter().zip(&roams) {
            roam.set_timers(one.timers());
        }
        Ok(Self {
            loops,
            watches: watches.into(),
            roams: roams.into(),
        })
    }

    /// Returns the decisions of each loop's strategy, in the order of the loops: how many tasks ran
    /// in place, were given away, or were handed over late.
    pub fn metrics(&self) -> Vec<Counts> {
        let strategies = self.loops.iter().filter_map(|one| one.strategy());
        strategies.map(|strategy| strategy.counts()).collect()
    }
}

impl<P: Placement> NetGroup<P> {
    /// Returns the loops.
    pub fn loops(&self) -> &EventLoopGroup<P> {
        &self.loops
    }

    /// Returns the I/O counters of each loop, in the order of the loops.
    pub fn io_metrics(&self) -> Vec<IoMetrics> {
        self.watches.iter().map(IoWatch::metrics).collect()
    }

    /// Returns the loop for the next connection.
    pub(crate) fn pick(&self) -> LoopTarget<P> {
        let home = self.loops.next().clone();
        let at = self.loops.iter().position(|one| *one == home);
        let roam = at.and_then(|at| self.roams.get(at)).cloned();
        LoopTarget { home, roam }
    }

    /// Returns every loop.
    pub(crate) fn each(&self) -> impl Iterator<Item = LoopTarget<P>> {
        self.loops.iter().enumerate().map(|(at, home)| LoopTarget {
            home: home.clone(),
            roam: self.roams.get(at).cloned(),
        })
    }
}

impl<P: Placement> Clone for NetGroup<P> {
    fn clone(&self) -> Self {
        Self {
            loops: self.loops.clone(),
            watches: Arc::clone(&self.watches),
            roams: Arc::clone(&self.roams),
        }
    }
}

impl<P: Placement> Deref for NetGroup<P> {
    type Target = EventLoopGroup<P>;

    fn deref(&self) -> &EventLoopGroup<P> {
        &self.loops
    }
}

impl<P: Placement> fmt::Debug for NetGroup<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loops.fmt(f)
    }
}
