//! The addresses of names, looked up on threads that may block, never on a loop.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate::net::NetError;
use tidegate::promise::{Completion, WaitError};

use crate::config::Address;

/// How long the lookup of the name of a listener may take.
const LISTENER_TIME: Duration = Duration::from_secs(5);

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
pub struct Resolver(Arc<tidegate_net::internal::Resolver>);

impl Resolver {
    /// Creates a resolver. `look_up` must not block; it returns a completion.
    pub fn new(
        look_up: impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(look_up))
    }

    /// Creates a resolver that asks the operating system, on threads of its own, which start with
    /// the first lookup. A name holds one thread at most, and names whose last lookup took over a
    /// second share at most half of the threads.
    pub fn system() -> Self {
        Self(tidegate_net::internal::system_resolver())
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

tidegate_core::debug_fields!(Resolver);
