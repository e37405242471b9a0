//! The sections of listeners.

use std::time::Duration;

use crate::config::address::Address;
use crate::config::notation::Size;
use crate::config::setting::settings;
use crate::config::values::{ClientCertificate, Count, FilePath, Network, Secret};
use crate::route::HostPattern;

settings! {
    /// A listener for requests. An address in place of the table is a listener without TLS.
    pub struct Listener short "at" {
        /// The address to listen on. A Unix socket on which no process listens is replaced; anything else at
        /// its path is an error.
        at: Address,
        /// TLS. Without it, the listener speaks plain HTTP.
        tls: Option<ListenTls> = None,
        /// Reads the PROXY protocol, version 1 or 2, from peers in `trust`. Other peers are
        /// refused. Its header comes within `limits.head_time`.
        proxy_protocol: bool = false,
        /// The peers whose `Forwarded`, `X-Real-IP` and `X-Forwarded-*` fields are kept.
        trust: Vec<Network> = Vec::new(),
        /// What a client may send, and how long it may take.
        limits: Limits,
    }
}

settings! {
    /// TLS of a listener.
    pub struct ListenTls {
        /// The certificates. The name that a client asks for selects one; the first is the default.
        certificates: Vec<Certificate>,
        /// Asks clients for a certificate.
        client: ClientCertificate = ClientCertificate::None,
        /// The roots of client certificates, in PEM. A relative path begins at the working directory of the
        /// process.
        client_roots: Option<FilePath> = None,
    }
}

settings! {
    /// A certificate and its key. Both files are read again when they change.
    pub struct Certificate {
        /// The chain of certificates, in PEM. A relative path begins at the working directory of the
        /// process.
        cert: FilePath,
        /// The private key, in PEM. A relative path begins at the working directory of the
        /// process.
        key: FilePath,
    }
}

settings! {
    /// What a client may send, and how long it may take.
    pub struct Limits {
        /// The longest request line. A longer one gets status 414.
        request_line: Size = Size(8 * 1024),
        /// The largest head. A larger one gets status 431.
        head: Size = Size(32 * 1024),
        /// The largest number of fields, at most 100. A head with more gets status 431.
        fields: Count = Count(100),
        /// The largest body, unless the route has a `body` of its own; off means that there is no limit. A
        /// larger one gets status 413. A chunked one counts only where it is passed on to a server.
        body: Option<Size> = None,
        /// The time for a whole head, from its first byte. A later one gets status 408.
        head_time: Duration = Duration::from_secs(10),
        /// How long a body may make no progress. The request then gets status 408.
        body_time: Duration = Duration::from_secs(30),
        /// How long a client may take no byte of a response. It is looked at in steps of this time, so the
        /// client is cut after at most twice of it.
        send_time: Duration = Duration::from_secs(30),
        /// How long a connection may wait for its next request.
        idle: Duration = Duration::from_secs(75),
        /// The number of requests that a connection may have in progress. The next one is read when the
        /// response to the first of them is sent. Only those with safe methods are passed on at the same time.
        pipelined: Count = Count(16),
        /// The largest number of connections; off means that there is no limit. One more is closed at once.
        connections: Option<Count> = None,
        /// The largest number of connections of one address; off means that there is no limit. One more is
        /// closed at once. It does not apply to Unix sockets.
        connections_per_client: Option<Count> = None,
        /// How much may wait in the memory of all connections: bytes that clients do not take, and parts of
        /// heads; off means that there is no limit. Above it, the connections that have most are closed.
        memory: Option<Size> = None,
    }
}

settings! {
    /// The listener for operators: metrics, streams, state, changes. An address in place of the
    /// table is a listener without tokens, which must be on a loopback address.
    pub struct Admin short "at" {
        /// The address to listen on. A Unix socket on which no process listens is replaced; anything else at
        /// its path is an error.
        at: Address,
        /// The token for everything. Without it, nothing can be changed.
        token: Option<Secret> = None,
        /// The token for reading. Without it, reading is free on a loopback address.
        read_token: Option<Secret> = None,
        /// Names under which operators reach the listener, besides its address.
        hosts: Vec<HostPattern> = Vec::new(),
    }
}
