//! Groups of loops with I/O.

use std::fmt;
use std::ops::Deref;

use tidegate_exec::{BuildError, EventLoopGroup, EventLoopGroupBuilder};

use crate::driver::{IoWatch, PollDriver};
use crate::metrics::IoMetrics;
use crate::sys::MioPoller;

/// Makes `loops` event loops with I/O, each on a thread of its own that a channel never leaves;
/// 0 means twice the processors.
///
/// # Errors
///
/// [`BuildError`] when a poller cannot be had.
///
/// ```
/// let group = tidegate_net::pinned("io", 2)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), tidegate_exec::BuildError>(())
/// ```
pub fn pinned(name: impl Into<String>, loops: usize) -> Result<NetGroup, BuildError> {
    NetGroup::build(EventLoopGroup::builder(name).loops(loops))
}

/// Event loops with I/O, on which channels live for good.
///
/// ```
/// use tidegate_exec::{Choose, EventLoopGroup};
/// use tidegate_net::NetGroup;
///
/// let loops = EventLoopGroup::builder("io").loops(2).choose(Choose::LessBusy);
/// let group = NetGroup::build(loops)?;
/// assert_eq!(group.io_metrics().len(), 2);
/// # Ok::<(), tidegate_exec::BuildError>(())
/// ```
#[derive(Clone)]
pub struct NetGroup {
    loops: EventLoopGroup,
    watches: Vec<IoWatch>,
}

impl NetGroup {
    /// Makes the loops that `builder` describes, each with a poller.
    ///
    /// # Errors
    ///
    /// [`BuildError`] when the description contradicts itself or a poller cannot be had.
    pub fn build(builder: EventLoopGroupBuilder) -> Result<Self, BuildError> {
        let mut watches = Vec::new();
        let loops = builder.build_with(|_| {
            let driver = PollDriver::new(MioPoller::new()?);
            watches.push(driver.watch());
            Ok(driver)
        })?;
        Ok(Self { loops, watches })
    }

    /// The loops.
    pub fn loops(&self) -> &EventLoopGroup {
        &self.loops
    }

    /// What each loop counts, in the order of the loops.
    pub fn io_metrics(&self) -> Vec<IoMetrics> {
        self.watches.iter().map(IoWatch::metrics).collect()
    }
}

impl Deref for NetGroup {
    type Target = EventLoopGroup;

    fn deref(&self) -> &EventLoopGroup {
        &self.loops
    }
}

impl fmt::Debug for NetGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loops.fmt(f)
    }
}
