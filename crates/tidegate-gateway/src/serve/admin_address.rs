//! The address of the listener for operators: a reload does not move it, and no other listener gets it.

use std::net::{IpAddr, SocketAddr};

use super::error::StartError;
use crate::config::{Address, Config};

/// What to do about an address that is taken by the gateway itself.
const ADVICE: &str = "the gateway's own listener for operators has it until the next start; \
    restart, or set another address";

/// Where the listener for operators is.
#[derive(Clone, Debug)]
pub(super) enum AdminAddress {
    Tcp(SocketAddr),
    Unix(Address),
}

impl AdminAddress {
    /// Returns the address of a listener that was set to `at` and has `bound`.
    pub(super) fn new(at: &Address, bound: SocketAddr) -> Self {
        match at {
            Address::Tcp { .. } => Self::Tcp(bound),
            Address::Unix(_) => Self::Unix(at.clone()),
        }
    }

    /// Returns the names of the listeners that cannot have their addresses because of this one.
    pub(super) fn blocked(&self, config: &Config) -> Vec<String> {
        let all = config.listeners.iter();
        let blocked = all.filter(|listener| self.overlaps(&listener.value.at));
        blocked.map(|listener| listener.name.clone()).collect()
    }

    fn overlaps(&self, at: &Address) -> bool {
        match (self, at) {
            (Self::Unix(own), at) => own == at,
            (Self::Tcp(own), Address::Tcp { host, port }) => {
                let is_same =
                    |ip: IpAddr| own.ip() == ip || own.ip().is_unspecified() || ip.is_unspecified();
                let ip = host.parse::<IpAddr>();
                // What a name stands for is not known here. It is in use, and that is likely why.
                own.port() == *port && ip.map_or(true, is_same)
            }
            (Self::Tcp(_), Address::Unix(_)) => false,
        }
    }
}

/// Names the holder of the address, if a listener cannot be opened that is one of `blocked`.
pub(super) fn explained(why: StartError, blocked: &[String]) -> StartError {
    match why {
        StartError::Listen { name, at, why }
            if why.contains("in use") && blocked.contains(&name) =>
        {
            let why = ADVICE.to_owned();
            StartError::Listen { name, at, why }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    //! Addresses that overlap.

    use super::AdminAddress;
    use crate::config::tests::config_of;

    #[test]
    fn a_listener_is_blocked_by_the_same_port_on_the_same_machine() {
        let rows = [
            ("127.0.0.1:9090", "127.0.0.1:9090", true),
            ("127.0.0.1:9090", "0.0.0.0:9090", true),
            ("127.0.0.1:9090", "[::]:9090", true),
            ("0.0.0.0:9090", "127.0.0.1:9090", true),
            ("127.0.0.1:9090", "localhost:9090", true),
            ("127.0.0.1:9090", "127.0.0.2:9090", false),
            ("127.0.0.1:9090", "127.0.0.1:9091", false),
            ("127.0.0.1:9090", "unix:/run/a.sock", false),
        ];
        for (own, at, expected) in rows {
            let config = config_of(&format!(
                "[listen]\nweb = \"{at}\"\n[route.a]\nrespond = 200\n"
            ));
            let own = AdminAddress::Tcp(own.parse().unwrap());
            assert_eq!(!own.blocked(&config).is_empty(), expected, "{at}");
        }
    }
}
