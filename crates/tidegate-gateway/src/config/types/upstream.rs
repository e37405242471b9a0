//! The sections of upstreams.

use std::time::Duration;

use crate::config::address::Address;
use crate::config::setting::settings;
use crate::config::values::{Balance, Count, FilePath, HealthKind, HostName, Statuses, Written};

settings! {
    /// A service: servers of which each can take a request.
    pub struct Upstream {
        /// The servers. An address in place of a table is a server of weight 1.
        servers: Vec<Server>,
        /// How the server of a request is chosen.
        balance: Balance = Balance::LeastInFlight,
        /// The largest number of requests in flight to each server, over all loops.
        max_in_flight: Option<Count> = None,
        /// Checks the servers. Without it, a server is always up.
        health: Option<Health> = None,
        /// TLS to the servers.
        tls: Option<UpstreamTls> = None,
        /// The time for a connection to be established, with TLS.
        connect_timeout: Duration = Duration::from_secs(1),
        /// How long a connection without a request is kept.
        idle: Duration = Duration::from_secs(60),
        /// How often the names of servers are resolved again. A name that fails keeps its
        /// addresses.
        resolve_every: Duration = Duration::from_secs(30),
    }
}

settings! {
    /// A server of an upstream.
    pub struct Server short "at" {
        /// The address. A name stands for all of its addresses.
        at: Address,
        /// The share of requests, relative to the other servers. A server of weight 0 gets none.
        weight: u32 = 1,
    }
}

settings! {
    /// Health checks. Each server is checked by one loop; the checks are spread over time.
    pub struct Health {
        /// What is checked.
        kind: HealthKind = HealthKind::Http,
        /// The path of the request.
        path: Written<String> = Written::from("/"),
        /// The time between two checks.
        every: Duration = Duration::from_secs(5),
        /// The time for a check.
        timeout: Duration = Duration::from_secs(1),
        /// The statuses of a server that is up.
        status: Statuses = Statuses { low: 200, high: 399 },
        /// A text that the body must contain.
        body: Option<String> = None,
        /// The number of successes after which a server is up.
        up: Count = Count(2),
        /// The number of failures after which a server is down.
        down: Count = Count(3),
    }
}

settings! {
    /// TLS to the servers of an upstream. The files are read again when they change.
    pub struct UpstreamTls {
        /// The name in the certificate; off means the name in the address.
        name: Option<HostName> = None,
        /// The roots to trust, in PEM; off means those of the platform. A relative path begins at the working directory of the
        /// process.
        roots: Option<FilePath> = None,
        /// Our own chain of certificates, in PEM. It needs `key` and `roots`. A relative path begins at the working directory of the
        /// process.
        cert: Option<FilePath> = None,
        /// Our own private key, in PEM. It needs `cert` and `roots`. A relative path begins at the working directory of the
        /// process.
        key: Option<FilePath> = None,
    }
}
