//! The threads on which an event loop's work may run, as a type.

/// The threads on which an event loop's work may run: [`Pinned`] or [`Roaming`].
pub trait Placement: sealed::Sealed + Send + Sync + 'static {
    /// `true` if the event loop's thread must never block.
    const PINNED: bool;
}

/// One thread: spawned futures need not be `Send`, and nothing on the thread may block.
///
/// ```
/// use tidegate_loop::{EventLoop, EventLoopGroup, Pinned};
///
/// let group: EventLoopGroup<Pinned> = EventLoopGroup::builder("io").loops(1).build()?;
/// let has_it = EventLoop::<Pinned>::spawn_local::<std::future::Ready<()>>;
/// # let _ = (group, has_it);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pinned;

/// Any thread of a pool or its monitor: the event loop moves from thread to thread, so everything
/// must be `Send`. Tasks may block; another thread continues with the event loop's work meanwhile.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_loop::{EventLoopGroup, Roaming, RoamingConfig};
/// use tidegate_pool::WorkerPool;
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(8).build()?);
/// let config = RoamingConfig::new(pool);
/// let group: EventLoopGroup<Roaming> =
///     EventLoopGroup::builder("io").loops(1).build_roaming(&config)?;
/// group.next().spawn(async {})?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A roaming loop has no `spawn_local`:
///
/// ```compile_fail
/// use std::sync::Arc;
/// use tidegate_loop::{EventLoopGroup, RoamingConfig};
/// use tidegate_pool::WorkerPool;
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(8).build().unwrap());
/// let config = RoamingConfig::new(pool);
/// let group = EventLoopGroup::builder("io").loops(1).build_roaming(&config).unwrap();
/// group.next().spawn_local(async {});
/// ```
///
/// and everything that it is given must be `Send`:
///
/// ```compile_fail
/// use std::sync::Arc;
/// use tidegate_loop::{EventLoopGroup, RoamingConfig};
/// use tidegate_pool::WorkerPool;
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(8).build().unwrap());
/// let config = RoamingConfig::new(pool);
/// let group = EventLoopGroup::builder("io").loops(1).build_roaming(&config).unwrap();
/// let local = std::rc::Rc::new(1);
/// group.next().spawn(async move { drop(local) });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Roaming;

impl Placement for Pinned {
    const PINNED: bool = true;
}

impl Placement for Roaming {
    const PINNED: bool = false;
}

pub(crate) mod sealed {
    /// Prevents implementations outside this crate.
    pub trait Sealed {}
    impl Sealed for super::Pinned {}
    impl Sealed for super::Roaming {}
}
