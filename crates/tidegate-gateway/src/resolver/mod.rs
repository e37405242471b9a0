//! The addresses of names, looked up on threads that may block, never on a loop.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `turns` | which names are looked up at a time, as plain data | |
//! | `lookups` | lookups on threads | `turns` |

mod lookups;
mod turns;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Clock;
use tidegate::net::NetError;
use tidegate::promise::{Completion, WaitError};

use lookups::{Lookups, ask_system};

use crate::config::Address;

/// How long the lookup of the name of a listener may take.
const LISTENER_TIME: Duration = Duration::from_secs(5);

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
    /// the first lookup. A name holds one thread at most, and names whose lookups hang do not delay
    /// those of others.
    pub fn system() -> Self {
        let lookups = Lookups::new(Clock::system(), ask_system);
        Self::new(move |host, port| lookups.ask(host, port))
    }

    /// Looks up a name.
    pub fn look_up(&self, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
        (self.0)(host, port)
    }

    /// Looks up the name on which a listener is to listen, and waits for it, so that nothing has to be
    /// waited for when listeners are opened. Returns nothing if the address is not a name.
    ///
    /// # Errors
    ///
    /// The name has no address, or was not found in time.
    pub(crate) fn wait_for_listener(&self, at: &Address) -> Result<Vec<SocketAddr>, String> {
        let (host, port) = match at {
            Address::Tcp { host, port } if host.parse::<IpAddr>().is_err() => (host, *port),
            Address::Tcp { .. } | Address::Unix(_) => return Ok(Vec::new()),
        };
        let name = host.clone();
        match self.look_up(host, port).wait_timeout(LISTENER_TIME) {
            Ok(found) if found.is_empty() => Err(NetError::NoAddress(name).to_string()),
            Ok(found) => Ok(found),
            Err(WaitError::TimedOut { .. }) => {
                let after = LISTENER_TIME;
                Err(NetError::ResolveTimeout { name, after }.to_string())
            }
            Err(why) => Err(why.to_string()),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! The resolver of the operating system.

    use super::Resolver;

    #[test]
    fn the_operating_system_knows_the_local_host() {
        let found = Resolver::system().look_up("localhost", 80).wait().unwrap();
        assert!(!found.is_empty() && found.iter().all(|one| one.ip().is_loopback()));
        assert!(found.iter().all(|one| one.port() == 80));
        let none = Resolver::system().look_up("no such name", 80).wait();
        assert!(none.is_err());
    }
}
