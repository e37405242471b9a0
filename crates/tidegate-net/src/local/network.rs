//! The addresses of a network, and who listens there.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;

use super::listener::{Arrivals, LocalListener};
use super::socket::LocalSocket;
use crate::channel::{LocalEnd, local_ends};

/// The first port of the servers and clients that do not choose one.
const FIRST_PORT: u16 = 1024;
/// How many connections wait at a listener of a test.
const BACKLOG: i32 = 1024;
/// The error of a system call for which the process has no descriptor left.
const EMFILE: i32 = 24;

/// A network within this process, which takes the place of TCP on the loopback interface in tests.
/// Its connections are pairs of [local ends](crate::NetGroup::local_pair).
///
/// A group that is built with [`local_network`](crate::NetGroupBuilder::local_network) connects and listens
/// here. A test plays its peers with [`connect`](LocalNetwork::connect) and
/// [`bind`](LocalNetwork::bind). What one side has written can be read by the other at once, so a
/// test knows what a group has to do before it goes on.
///
/// Clones are handles of the same network. Nothing of it reaches the operating system, so its
/// addresses are free of those of other processes.
///
/// ```
/// use std::io::{Read, Write};
/// use tidegate_net::internal::LocalNetwork;
/// use tidegate_net::{NetGroup, Server};
///
/// let network = LocalNetwork::new();
/// let group = NetGroup::builder("io").loops(1).local_network(&network).build()?;
/// let server = Server::builder(&group).bind("127.0.0.1:0").wait()?;
/// let mut client = network.connect(server.local_addr())?;
/// client.write_all(b"hello")?;
/// server.drain(std::time::Duration::ZERO).wait()?;
/// assert_eq!(client.read(&mut [0])?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct LocalNetwork(Arc<Mutex<Addresses>>);

#[derive(Default)]
struct Addresses {
    bound: Vec<Bound>,
    /// How many ports were chosen, for servers and for clients.
    chosen: (usize, usize),
    /// How many connections were made.
    connects: usize,
    /// Groups have no descriptors left, and how many of their calls have failed for that.
    starved: bool,
    failed: usize,
}

/// A listener at an address.
struct Bound {
    address: SocketAddr,
    shared: bool,
    arrivals: Arc<Arrivals>,
}

impl LocalNetwork {
    /// Creates a network on which nobody listens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens at `address`; at most 1024 connections wait to be accepted. With port 0, a free port is
    /// chosen: not one that was chosen before, until all were.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a listener has this port, and the same or the unspecified
    /// address.
    pub fn bind(&self, address: SocketAddr) -> io::Result<LocalListener> {
        self.listen(address, false, BACKLOG)
    }

    /// Listens at `address`. Listeners that are all `shared` may have the same address, and get the
    /// connections in turn. At most `backlog` connections wait to be accepted.
    pub(crate) fn listen(
        &self,
        mut address: SocketAddr,
        shared: bool,
        backlog: i32,
    ) -> io::Result<LocalListener> {
        let mut addresses = self.lock();
        if address.port() == 0 {
            let port = addresses.free_port(address.ip());
            address.set_port(port.ok_or(io::ErrorKind::AddrInUse)?);
        }
        if addresses.conflicts(address, shared).next().is_some() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let arrivals = Arc::new(Arrivals::new(usize::try_from(backlog).unwrap_or(1).max(1)));
        addresses.bound.push(Bound {
            address,
            shared,
            arrivals: Arc::clone(&arrivals),
        });
        drop(addresses);
        Ok(LocalListener::new(self.clone(), address, arrivals))
    }

    /// Sets whether groups have no descriptors left. Then they accept and connect as little as a process
    /// with `EMFILE`. The peers that the test plays have descriptors.
    pub fn set_starved(&self, yes: bool) {
        self.lock().starved = yes;
    }

    /// Returns how many accepts and connects of groups have failed because they had no descriptors.
    pub fn starved(&self) -> usize {
        self.lock().failed
    }

    /// Connects to `address`. Does not wait until the connection is accepted.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`] if there is no listener, [`io::ErrorKind::WouldBlock`] if its
    /// backlog is full, as for a Unix socket.
    pub fn connect(&self, address: SocketAddr) -> io::Result<LocalSocket> {
        Ok(LocalSocket::new(self.connect_end(address)?))
    }

    /// Connects like [`LocalNetwork::connect`]. Returns the client's end.
    pub(crate) fn connect_end(&self, address: SocketAddr) -> io::Result<LocalEnd> {
        let mut addresses = self.lock();
        let Some(arrivals) = addresses.listener(address) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let own = addresses.client_address(address.ip());
        drop(addresses);
        let (client, server) = local_ends(Some(own), Some(address));
        arrivals.push(server)?;
        Ok(client)
    }

    /// Takes a descriptor for a connection of a group.
    ///
    /// # Errors
    ///
    /// That of the system if there is none.
    pub(crate) fn take_descriptor(&self) -> io::Result<()> {
        let mut addresses = self.lock();
        if !addresses.starved {
            return Ok(());
        }
        addresses.failed += 1;
        Err(io::Error::from_raw_os_error(EMFILE))
    }

    /// Frees the address of a listener.
    pub(super) fn unbind(&self, arrivals: &Arc<Arrivals>) {
        let mut addresses = self.lock();
        let bound = &mut addresses.bound;
        bound.retain(|one| !Arc::ptr_eq(&one.arrivals, arrivals));
    }

    fn lock(&self) -> MutexGuard<'_, Addresses> {
        lock(&self.0)
    }
}

impl Addresses {
    /// Returns the next port at which nobody listens.
    fn free_port(&mut self, ip: IpAddr) -> Option<u16> {
        for _ in FIRST_PORT..=u16::MAX {
            let port = nth_port(&mut self.chosen.0);
            let address = SocketAddr::new(ip, port);
            if self.conflicts(address, false).next().is_none() {
                return Some(port);
            }
        }
        None
    }

    /// Returns the listeners whose addresses overlap with `address`, unless all of them are shared.
    fn conflicts(&self, address: SocketAddr, shared: bool) -> impl Iterator<Item = &Bound> {
        self.bound.iter().filter(move |one| {
            let (own, new) = (one.address.ip(), address.ip());
            let overlaps = own == new
                || own.is_ipv4() == new.is_ipv4() && (own.is_unspecified() || new.is_unspecified());
            one.address.port() == address.port() && overlaps && !(one.shared && shared)
        })
    }

    /// Returns the listener that gets the next connection to `address`: one of those at the address,
    /// or else at the unspecified one.
    fn listener(&mut self, address: SocketAddr) -> Option<Arc<Arrivals>> {
        let any: IpAddr = match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.connects += 1;
        let turn = self.connects;
        let at = |address: SocketAddr| {
            let own = self.bound.iter().filter(|one| one.address == address);
            let own: Vec<_> = own.collect();
            let next = turn.checked_rem(own.len())?;
            Some(Arc::clone(&own[next].arrivals))
        };
        at(address).or_else(|| at(SocketAddr::new(any, address.port())))
    }

    /// Returns the address of a client that connects to `to`.
    fn client_address(&mut self, to: IpAddr) -> SocketAddr {
        let port = nth_port(&mut self.chosen.1);
        match to {
            IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
        }
    }
}

/// Returns the next port of a sequence.
fn nth_port(chosen: &mut usize) -> u16 {
    let all = usize::from(u16::MAX - FIRST_PORT) + 1;
    let nth = u16::try_from(*chosen % all).unwrap_or_default();
    *chosen += 1;
    FIRST_PORT + nth
}

impl fmt::Debug for LocalNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.lock().bound.iter().map(|one| one.address).collect();
        f.debug_tuple("LocalNetwork").field(&addresses).finish()
    }
}
