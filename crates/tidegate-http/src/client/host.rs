//! One host: its pool of connections, and how they are made.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{Address, Channel, Client as Connector, NetGroup, PipelineBuilder};
use tidegate_promise::Completion;

use super::call::CallReceiver;
use super::config::Config;
use super::exchange::Connection;
use super::handler::ClientHandler;
use super::pool::Pool;
use super::url::Url;
use crate::codec::HeadLimits;

/// What makes connections interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Key {
    pub(super) fn of(url: &Url) -> Self {
        Self {
            secure: url.secure,
            host: url.host.clone(),
            port: url.port,
        }
    }
}

/// One host.
pub(super) struct Host {
    pub(super) pool: Arc<Pool<Channel>>,
    pub(super) max_waiting: usize,
    pub(super) wait_timeout: Duration,
    group: NetGroup,
    connector: Connector,
    key: Key,
}

impl Host {
    /// Creates a host without connections. `secure` adds what comes before HTTP in the pipeline.
    pub(super) fn new(
        group: &NetGroup,
        config: &Config,
        key: Key,
        secure: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
    ) -> Arc<Self> {
        let limits = config.connection;
        let mut connector = Connector::builder(group)
            .options(config.options.clone())
            .resolve_timeout(config.resolve_timeout)
            .pipeline(move |p| {
                let connection = Connection::<CallReceiver>::new(limits, HeadLimits::DEFAULT);
                secure(p).add_duplex("http", ClientHandler::new(connection))
            });
        if let Some(resolver) = &config.resolver {
            let resolver = Arc::clone(resolver);
            connector = connector.resolver(move |host, port| resolver(host, port));
        }
        Arc::new(Self {
            pool: Pool::new(
                group.loops().len(),
                config.max_connections,
                config.max_waiting,
            ),
            max_waiting: config.max_waiting,
            wait_timeout: config.wait_timeout,
            group: group.clone(),
            connector: connector.build(),
            key,
        })
    }

    /// Makes a connection on loop `at`.
    pub(super) fn connect(&self, at: usize) -> Completion<Channel> {
        let to = Address::from((self.key.host.as_str(), self.key.port));
        match self.group.loops().iter().nth(at) {
            Some(home) => self.connector.connect_on(home, to),
            None => self.connector.connect(to),
        }
    }

    /// Runs `run` on loop `at` after this time.
    pub(super) fn schedule(
        &self,
        at: usize,
        after: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Option<Completion<()>> {
        let home = self.group.loops().iter().nth(at)?;
        // A loop that takes no more timers is ending, and the connection with it.
        home.schedule(after, run).ok()
    }

    /// Returns `true` if no connection is open and no call waits.
    pub(super) fn is_unused(&self) -> bool {
        self.pool.load() == (0, 0)
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        for channel in self.pool.take_idle() {
            drop(channel.close());
        }
    }
}
