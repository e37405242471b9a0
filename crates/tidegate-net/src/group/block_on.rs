//! `block_on` with I/O: the calling thread drives an event loop with a poller.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use tidegate_loop::internal::check_block_on;
use tidegate_loop::{BlockOnError, BuildError, ManualLoop};

use super::builder::NetGroupBuilder;
use super::net_group::NetGroup;
use crate::reactor::PollDriver;
use crate::sys::SystemPoller;

thread_local! {
    /// The group of the `block_on` that this thread runs.
    static CURRENT: RefCell<Option<NetGroup>> = const { RefCell::new(None) };
}

/// Runs `future` on the calling thread until it is ready, and returns its output. The calling
/// thread drives an event loop with I/O meanwhile.
///
/// [`NetGroup::current`] returns that event loop as a group inside the future, for servers and
/// clients. Servers and clients of other groups can be used as well. For the rest see
/// [`tidegate_loop::block_on`](tidegate_loop::block_on()): how it ends, what becomes of spawned
/// futures, and when it is refused. At the end, the connections and the servers of the event loop
/// are closed.
///
/// # Errors
///
/// [`BlockOnError`] on the thread of an event loop, inside another `block_on`, if no poller can be
/// created, and if the event loop was shut down before the future was ready.
///
/// ```
/// use tidegate_net::{NetGroup, Server, StreamHandler};
///
/// let port = tidegate_net::block_on(async {
///     let group = NetGroup::current().expect("inside `block_on`");
///     let server = Server::builder(&group)
///         .pipeline(|p| p.add("hang up", StreamHandler::new(|stream| async { drop(stream) })))
///         .bind("127.0.0.1:0")
///         .await?;
///     Ok::<_, Box<dyn std::error::Error>>(server.local_addr().port())
/// })??;
/// assert_ne!(port, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_on<F: Future>(future: F) -> Result<F::Output, BlockOnError> {
    NetGroup::builder("block_on").block_on(future)
}

impl NetGroupBuilder {
    /// Builds one event loop and runs `future` on it, on the calling thread; see
    /// [`block_on`](crate::block_on()). The number of loops and the threads of the builder have no
    /// effect.
    ///
    /// # Errors
    ///
    /// As for [`block_on`](crate::block_on()).
    pub fn block_on<F: Future>(self, future: F) -> Result<F::Output, BlockOnError> {
        check_block_on()?;
        let (group, hand) = self.build_manual()?;
        let entered = EnteredGroup::new(group);
        let output = hand.block_on(future);
        drop(entered);
        output
    }

    /// Builds a group of one event loop that the owner of the [`ManualLoop`] drives.
    fn build_manual(self) -> Result<(NetGroup, ManualLoop), BuildError> {
        let (mut watches, mut inboxes) = (Vec::new(), Vec::new());
        let (loops, hand) = self.loops.build_manual_with_driver(|_| {
            let driver = PollDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            inboxes.push(Arc::clone(driver.inbox()));
            Ok(driver)
        })?;
        let mut group = NetGroup::new(loops, watches, Vec::new(), &inboxes);
        group.network = self.network;
        Ok((group, hand))
    }
}

impl NetGroup {
    /// Returns the event loop of the [`block_on`](crate::block_on()) that the calling thread runs,
    /// as a group of one. Returns `None` elsewhere, also on other event loops.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok()?
    }
}

/// The mark of a thread that runs a `block_on`.
struct EnteredGroup;

impl EnteredGroup {
    fn new(group: NetGroup) -> Self {
        drop(CURRENT.replace(Some(group)));
        Self
    }
}

impl Drop for EnteredGroup {
    fn drop(&mut self) {
        let group = CURRENT.take();
        drop(group);
    }
}
