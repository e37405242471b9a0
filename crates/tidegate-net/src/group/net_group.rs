//! Groups of loops with I/O.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_loop::{BuildError, EventLoop, EventLoopGroup, Pinned, Placement};

use crate::group::LoopTarget;
use crate::local::LocalNetwork;
use crate::metrics::IoMetrics;
use crate::reactor::{IoWatch, RoamingShared};
use crate::source::{ReactorHandle, SharedInbox};

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
    NetGroup::builder(name).loops(loops).build()
}

/// Event loops with I/O, on which channels live for good, or with which they roam.
///
/// Clones are handles of the same loops. The loops end with the last clone, and their channels with
/// them: a [`Channel`](crate::Channel) does not keep its loop running, so hold the group as long as
/// the connections that a [`Client`](crate::Client) made. A bound [`Server`](crate::Server) keeps
/// its own clone.
///
/// [`pinned`] and [`roaming`](crate::roaming) create a group in one line, [`NetGroup::builder`] with more settings.
pub struct NetGroup<P: Placement = Pinned> {
    pub(super) loops: EventLoopGroup<P>,
    watches: Arc<[IoWatch]>,
    /// One for each roaming loop.
    roams: Arc<[Arc<RoamingShared>]>,
    /// One for each loop.
    reactors: Arc<[ReactorHandle]>,
    /// Where it connects and listens, if not with sockets.
    pub(super) network: Option<LocalNetwork>,
}

impl<P: Placement> NetGroup<P> {
    pub(super) fn new(
        loops: EventLoopGroup<P>,
        watches: Vec<IoWatch>,
        roams: Vec<Arc<RoamingShared>>,
        inboxes: &[SharedInbox],
    ) -> Self {
        for (one, inbox) in loops.iter().zip(inboxes) {
            inbox.set_home(&one.executor(), one.starter());
        }
        Self {
            loops,
            watches: watches.into(),
            roams: roams.into(),
            reactors: inboxes.iter().map(ReactorHandle::new).collect(),
            network: None,
        }
    }

    /// Returns the loops.
    pub fn loops(&self) -> &EventLoopGroup<P> {
        &self.loops
    }

    /// Returns the reactor of the next loop, to register a source of the caller there: see
    /// [`source`](crate::source).
    ///
    /// ```
    /// let group = tidegate_net::pinned("io", 2)?;
    /// assert_ne!(group.next_reactor().name(), group.next_reactor().name());
    /// # Ok::<(), tidegate_loop::BuildError>(())
    /// ```
    pub fn next_reactor(&self) -> ReactorHandle {
        let next = self.loops.next();
        let at = self.loops.iter().position(|one| one == next);
        self.reactors[at.unwrap_or(0)].clone()
    }

    /// Returns the reactor of each loop, in the order of the loops.
    pub fn reactors(&self) -> &[ReactorHandle] {
        &self.reactors
    }

    /// Returns the I/O counters of each loop, in the order of the loops.
    pub fn io_metrics(&self) -> Vec<IoMetrics> {
        self.watches.iter().map(IoWatch::metrics).collect()
    }

    /// Returns the network on which the group connects and listens, if it uses no TCP sockets.
    pub(crate) fn network(&self) -> Option<&LocalNetwork> {
        self.network.as_ref()
    }

    /// Returns the loop for the next connection.
    pub(crate) fn pick(&self) -> LoopTarget<P> {
        let home = self.loops.next().clone();
        let at = self.loops.iter().position(|one| *one == home);
        let roam = at.and_then(|at| self.roams.get(at)).cloned();
        LoopTarget { home, roam }
    }

    /// Returns this loop as a target, if it is one of the group.
    pub(crate) fn target(&self, home: &EventLoop<P>) -> Option<LoopTarget<P>> {
        self.each().find(|target| target.home == *home)
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
            reactors: Arc::clone(&self.reactors),
            network: self.network.clone(),
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
