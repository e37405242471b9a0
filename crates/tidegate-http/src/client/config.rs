//! The settings of a client.

use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{
    ChannelOptions, Client as Connector, ClientBuilder as ConnectorBuilder, NetGroup, WaterMarks,
};
use tidegate_promise::Completion;

use super::limits::ConnectionLimits;

/// Returns the addresses of a host and port, best first.
pub(super) type Resolver = dyn Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync;

/// How long the addresses of a name are used before it is resolved again.
const KEEP_NAMES: Duration = Duration::from_secs(30);

/// The settings of a client.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) connection: ConnectionLimits,
    pub(super) max_connections: usize,
    pub(super) keep: usize,
    pub(super) max_waiting: usize,
    pub(super) wait_timeout: Duration,
    pub(super) resolve_timeout: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) options: ChannelOptions,
    pub(super) resolver: Option<Arc<Resolver>>,
    /// The Unix socket to which all connections are made.
    #[cfg(unix)]
    pub(super) unix: Option<PathBuf>,
}

impl Config {
    /// Returns what makes connections, without their handlers. All hosts share its names.
    pub(super) fn connector(&self, group: &NetGroup) -> ConnectorBuilder {
        let connector = Connector::builder(group)
            .options(self.options.clone())
            .resolve_timeout(self.resolve_timeout);
        let connector = match self.resolver.clone() {
            Some(resolver) => connector.resolver(move |host, port| resolver(host, port)),
            None => connector,
        };
        connector.keep_names(KEEP_NAMES)
    }
}

impl Default for Config {
    fn default() -> Self {
        let marks = WaterMarks::default();
        // The body of a request is in memory anyway, so no cap keeps it from being sent.
        let marks = WaterMarks::new(marks.low(), marks.high(), usize::MAX / 2).unwrap_or(marks);
        Self {
            connection: ConnectionLimits {
                head_timeout: Duration::from_secs(30),
                body_timeout: Duration::from_secs(30),
                idle: Duration::from_secs(15),
                max_age: Duration::from_secs(600),
                max_requests: 10_000,
            },
            max_connections: 64,
            keep: 128,
            max_waiting: 1024,
            wait_timeout: Duration::from_secs(10),
            resolve_timeout: Connector::DEFAULT_RESOLVE_TIMEOUT,
            timeout: None,
            options: ChannelOptions {
                marks,
                connect_timeout: Duration::from_secs(10),
                ..ChannelOptions::default()
            },
            resolver: None,
            #[cfg(unix)]
            unix: None,
        }
    }
}
