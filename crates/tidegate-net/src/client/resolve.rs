//! Names and who resolves them.

use std::net::{SocketAddr, ToSocketAddrs};

use tidegate_promise::{Completion, Failure, promise};
use tidegate_sync::{Executor, Permits, Task, ThreadBuilder, ThreadPerTask};

use crate::errors::NetError;

/// Lookups that run at once; more are refused.
pub const MOST_LOOKUPS: usize = 16;

/// Where to connect to.
///
/// ```
/// use tidegate_net::Address;
///
/// assert_eq!(Address::from("127.0.0.1:80"), Address::Socket(([127, 0, 0, 1], 80).into()));
/// assert_eq!(Address::from("example.org:80"), Address::Name("example.org".to_owned(), 80));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A plain address.
    Socket(SocketAddr),
    /// A name and a port.
    Name(String, u16),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl From<&str> for Address {
    /// `host:port`; what has no port has port 0, to which nobody listens.
    fn from(text: &str) -> Self {
        if let Ok(address) = text.parse() {
            return Self::Socket(address);
        }
        match text.rsplit_once(':') {
            Some((host, port)) => Self::Name(host.to_owned(), port.parse().unwrap_or(0)),
            None => Self::Name(text.to_owned(), 0),
        }
    }
}

/// Makes addresses of names. Never on a loop.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, best first.
    fn resolve(&self, host: &str, port: u16) -> Completion<Vec<SocketAddr>>;
}

/// Asks the operating system, on threads of its own, [`MOST_LOOKUPS`] at once.
///
/// ```
/// use tidegate_net::{Resolver, SystemResolver};
///
/// let addresses = SystemResolver::new().resolve("localhost", 80).wait()?;
/// assert!(addresses.iter().all(|address| address.ip().is_loopback()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SystemResolver {
    threads: ThreadPerTask,
    permits: Permits,
}

impl SystemResolver {
    /// A resolver that has not been asked yet.
    pub fn new() -> Self {
        Self {
            threads: ThreadPerTask::new(ThreadBuilder::new("resolve")),
            permits: Permits::new(MOST_LOOKUPS),
        }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
        let Some(permit) = self.permits.try_acquire() else {
            let busy = "too many names are being resolved; try again later";
            return Completion::failed(Failure::new(busy));
        };
        let (promise, resolved) = promise();
        let host = host.to_owned();
        let look_up = Task::named("resolve a name", move || {
            let _permit = permit;
            let found = (host.as_str(), port).to_socket_addrs();
            let found = found.map(Iterator::collect::<Vec<_>>);
            let outcome = match found {
                Ok(found) if found.is_empty() => Err(NetError::NoAddress(host).into()),
                Ok(found) => Ok(found),
                Err(why) => Err(Failure::new(why)),
            };
            let _ = promise.complete(outcome);
        });
        // Refused: the promise goes with the task, and the completion fails as abandoned.
        let _ = self.threads.execute(look_up);
        resolved
    }
}
