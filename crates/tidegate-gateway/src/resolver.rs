//! The addresses of names, looked up on threads that may block, never on a loop.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate::pool::WorkerPool;
use tidegate::promise::{Completion, Failure, promise};

/// The most lookups at a time.
const MOST_LOOKUPS: usize = 16;
/// The most lookups that wait.
const MOST_WAITING: usize = 1024;

/// Looks up a host and a port.
type Lookup = dyn Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync;

/// Looks up the addresses of names.
///
/// ```
/// use tidegate::promise::Completion;
/// use tidegate_gateway::Resolver;
///
/// let resolver = Resolver::new(|_, port| Completion::succeeded(vec![([127, 0, 0, 1], port).into()]));
/// assert_eq!(resolver.look_up("shop.internal", 80).wait()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl Resolver {
    /// Creates a resolver. `look_up` must not block; it returns a completion.
    pub fn new(
        look_up: impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(look_up))
    }

    /// Creates a resolver that asks the operating system, on threads of its own, which start with
    /// the first lookup.
    pub fn system() -> Self {
        let threads = OnceLock::new();
        Self::new(move |host, port| {
            let (promise, resolved) = promise();
            let promise = promise.share();
            let (host, own) = (host.to_owned(), promise.clone());
            let look_up = move || {
                let found = (host.as_str(), port).to_socket_addrs();
                let found = found.map(Vec::from_iter).map_err(Failure::new);
                let _ = own.try_complete(found);
            };
            if threads.get_or_init(pool).execute(look_up).is_err() {
                let _ = promise.try_fail(Failure::new("too many names are looked up"));
            }
            resolved
        })
    }

    /// Looks up a name.
    pub fn look_up(&self, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
        (self.0)(host, port)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

fn pool() -> WorkerPool {
    let pool = WorkerPool::builder("resolve").core(0).max(MOST_LOOKUPS);
    let pool = pool.queue(MOST_WAITING).reserved(0);
    let pool = pool.keep_alive(Duration::from_secs(10)).build();
    pool.expect("the limits do not contradict each other")
}

#[cfg(test)]
mod tests {
    //! The resolver of the operating system.

    use super::Resolver;

    #[test]
    fn the_operating_system_knows_the_local_host() {
        let found = Resolver::system().look_up("localhost", 80).wait().unwrap();
        assert!(!found.is_empty() && found.iter().all(|one| one.ip().is_loopback()));
        let none = Resolver::system().look_up("no such name", 80).wait();
        assert!(none.is_err());
    }
}
