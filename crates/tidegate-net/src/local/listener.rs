//! A listener of a network within this process, and the connections that wait there.
//!
//! # Invariants
//!
//! * At most `backlog` connections wait.
//! * Nothing is called, and no end of a connection is dropped, under the lock of the arrivals.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::{lock, unpoisoned};

use super::network::LocalNetwork;
use super::socket::LocalSocket;
use crate::channel::LocalEnd;

/// A listener of a [`LocalNetwork`]. A test accepts on it as on a
/// [`TcpListener`](std::net::TcpListener), or hands it to a [`Server`](crate::Server), which returns
/// it with the connections that wait when it is [released](crate::Server::release_listeners).
///
/// Dropping it frees its address and resets the connections that wait.
///
/// ```
/// use std::time::Duration;
/// use tidegate_net::internal::LocalNetwork;
///
/// let network = LocalNetwork::new();
/// let listener = network.bind("127.0.0.1:0".parse()?)?;
/// assert!(listener.try_accept().is_err(), "no connection waits");
/// let client = network.connect(listener.local_addr())?;
/// let server = listener.accept(Some(Duration::from_secs(1)))?;
/// assert_eq!(server.peer_addr(), client.local_addr());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalListener {
    network: LocalNetwork,
    address: SocketAddr,
    arrivals: Arc<Arrivals>,
}

impl LocalListener {
    pub(super) fn new(network: LocalNetwork, address: SocketAddr, arrivals: Arc<Arrivals>) -> Self {
        Self {
            network,
            address,
            arrivals,
        }
    }

    /// Returns the listening address.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts a connection. Blocks for at most `patience`, or without a limit.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if no connection has come.
    pub fn accept(&self, patience: Option<Duration>) -> io::Result<LocalSocket> {
        Ok(LocalSocket::new(self.arrivals.wait(patience)?))
    }

    /// Accepts a connection that waits already.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if no connection waits.
    pub fn try_accept(&self) -> io::Result<LocalSocket> {
        Ok(LocalSocket::new(self.accept_end()?))
    }

    /// Accepts like [`LocalListener::try_accept`]. Returns the server's end.
    pub(crate) fn accept_end(&self) -> io::Result<LocalEnd> {
        let end = self.arrivals.lock().waiting.pop_front();
        end.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Accepts a connection that waits already, for a group.
    ///
    /// # Errors
    ///
    /// Those of [`LocalListener::try_accept`], and that of a group without descriptors.
    pub(crate) fn accept_channel(&self) -> io::Result<LocalEnd> {
        if !self.arrivals.lock().waiting.is_empty() {
            self.network.take_descriptor()?;
        }
        self.accept_end()
    }

    /// Sets what is called when a connection comes. It is called now if one waits already.
    pub(crate) fn on_arrival(&self, call: Option<OnArrival>) {
        let mut queue = self.arrivals.lock();
        let old = std::mem::replace(&mut queue.call, call.clone());
        let is_due = !queue.waiting.is_empty();
        drop(queue);
        drop(old);
        if let Some(call) = call.filter(|_| is_due) {
            call();
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.network.unbind(&self.arrivals);
        let mut queue = self.arrivals.lock();
        queue.closed = true;
        let call = queue.call.take();
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(call);
        waiting.iter().for_each(LocalEnd::reset_on_close);
    }
}

impl fmt::Debug for LocalListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalListener").field(&self.address).finish()
    }
}

/// What is called when a connection comes.
type OnArrival = Arc<dyn Fn() + Send + Sync>;

/// The connections that wait at a listener. The network and the listener share it.
pub(super) struct Arrivals {
    backlog: usize,
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<LocalEnd>,
    /// The listener is gone.
    closed: bool,
    /// Wakes the event loop that accepts.
    call: Option<OnArrival>,
}

impl Arrivals {
    pub(super) fn new(backlog: usize) -> Self {
        Self {
            backlog,
            queue: Mutex::default(),
            came: Condvar::new(),
        }
    }

    /// Adds a connection.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`] if the listener is gone, [`io::ErrorKind::WouldBlock`] if too
    /// many connections wait.
    pub(super) fn push(&self, server: LocalEnd) -> io::Result<()> {
        let mut queue = self.lock();
        let refusal = match queue.closed {
            true => Some(io::ErrorKind::ConnectionRefused),
            false if queue.waiting.len() >= self.backlog => Some(io::ErrorKind::WouldBlock),
            false => None,
        };
        if let Some(why) = refusal {
            drop(queue);
            drop(server);
            return Err(why.into());
        }
        queue.waiting.push_back(server);
        let call = queue.call.clone();
        drop(queue);
        self.came.notify_one();
        if let Some(call) = call {
            call();
        }
        Ok(())
    }

    /// Blocks until a connection has come.
    fn wait(&self, patience: Option<Duration>) -> io::Result<LocalEnd> {
        let is_early = |queue: &mut Queue| queue.waiting.is_empty();
        let queue = self.lock();
        let mut queue = match patience {
            Some(patience) => unpoisoned(self.came.wait_timeout_while(queue, patience, is_early)).0,
            None => unpoisoned(self.came.wait_while(queue, is_early)),
        };
        let end = queue.waiting.pop_front();
        end.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}
