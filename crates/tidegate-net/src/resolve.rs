//! Addresses, and the resolution of names.
//!
//! Uses [`lookups`](crate::lookups).

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::contain;
use tidegate_loop::internal::LoopScheduler;
use tidegate_promise::{Completion, Failure, promise};

use crate::awaited::result;
use crate::channel::TimedWork;
use crate::errors::NetError;
use crate::lookups::Lookups;

/// The default time limit for a lookup.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// An address to connect to or to listen on.
///
/// ```
/// use tidegate_net::Address;
///
/// assert_eq!(Address::from("127.0.0.1:80"), Address::Socket(([127, 0, 0, 1], 80).into()));
/// assert_eq!(Address::from("example.org:80"), Address::Name("example.org".to_owned(), 80));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket address.
    Socket(SocketAddr),
    /// A name and a port.
    Name(String, u16),
    /// Anything else; using it fails with [`NetError::InvalidAddress`].
    Invalid(String),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl From<&str> for Address {
    /// Parses `host:port`; text without a port is not an address.
    fn from(text: &str) -> Self {
        if let Ok(address) = text.parse() {
            return Self::Socket(address);
        }
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match parts.map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => Self::Name(host.to_owned(), port),
            _ => Self::Invalid(text.to_owned()),
        }
    }
}

impl From<&String> for Address {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<(&str, u16)> for Address {
    fn from((host, port): (&str, u16)) -> Self {
        match host.parse::<IpAddr>() {
            Ok(ip) => Self::Socket((ip, port).into()),
            Err(_) => Self::Name(host.to_owned(), port),
        }
    }
}

impl From<(IpAddr, u16)> for Address {
    fn from(address: (IpAddr, u16)) -> Self {
        Self::Socket(address.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Invalid(text) => f.write_str(text),
        }
    }
}

impl Address {
    /// Returns a completion with the addresses that it stands for. A name is looked up with
    /// `resolver`, for at most `after`; zero means no limit.
    pub(crate) fn look_up(
        self,
        resolver: &Resolver,
        after: Duration,
        timers: &LoopScheduler,
    ) -> Completion<Vec<SocketAddr>> {
        let (host, port) = match self {
            Self::Socket(address) => return Completion::succeeded(vec![address]),
            Self::Invalid(text) => {
                return Completion::failed(Failure::new(NetError::InvalidAddress(text)));
            }
            Self::Name(host, port) => (host, port),
        };
        let (promise, found) = promise();
        let promise = promise.share();
        let resolved = ask(resolver, &host, port);
        let limit = (!after.is_zero()).then(|| {
            let (promise, name) = (promise.clone(), host.clone());
            let late: TimedWork = Box::new(move || {
                let why = NetError::ResolveTimeout { name, after };
                let _ = promise.try_fail(Failure::new(why));
            });
            timers.schedule(after, late)
        });
        resolved.finally(move |outcome| {
            let found = match result(outcome) {
                Ok(found) if found.is_empty() => Err(NetError::NoAddress(host).into()),
                found => found.cloned(),
            };
            let _ = promise.try_complete(found);
            if let Some(Ok(limit)) = limit {
                limit.cancel();
            }
        });
        found
    }
}

/// Returns the addresses of a host and port, best first.
pub type Resolver = dyn Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync;

/// Calls a resolver, which may be code of the program. Its panic is a failure.
pub(crate) fn ask(resolver: &Resolver, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
    contain(|| resolver(host, port)).unwrap_or_else(|panic| {
        let why = Failure::new(format!("its resolver panicked: {}", panic.message()));
        let name = host.to_owned();
        Completion::failed(Failure::new(NetError::ResolveFailed { name, why }))
    })
}

/// Returns a resolver that uses the operating system, on the threads of a small pool of its own,
/// which starts with the first lookup.
pub fn system_resolver() -> Arc<Resolver> {
    let ask = |host: &str| Ok((host, 0).to_socket_addrs()?.collect());
    let lookups = Lookups::new(Clock::system(), ask);
    Arc::new(move |host, port| lookups.ask(host, port))
}

#[cfg(test)]
mod tests {
    //! The resolver of the operating system.

    use super::*;

    #[test]
    fn the_operating_system_resolves_the_local_host() {
        let addresses = system_resolver()("localhost", 80).wait().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
        assert!(!addresses.is_empty() && addresses.iter().all(|address| address.port() == 80));
        let why = system_resolver()("no such name", 80).wait().unwrap_err();
        let why = why.to_string();
        assert!(why.contains("`no such name` cannot be resolved"), "{why}");
    }
}
