//! One host: its pool of connections, and how they are made.

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{
    Address, Channel, Client as Connector, ClientBuilder as ConnectorBuilder, NetGroup,
    PipelineBuilder,
};
use tidegate_promise::Completion;

use super::config::Config;
use super::connection::{Connection, Receiver};
use super::counts::Counts;
use super::handler::ClientHandler;
use super::pool::Pool;
use super::slot::Link;
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

/// One host, and the connections whose responses go to an `R`.
pub(super) struct Host<R: Receiver> {
    pub(super) pool: Arc<Pool<Link<R>>>,
    pub(super) counts: Arc<Counts>,
    pub(super) max_waiting: usize,
    pub(super) wait_timeout: Duration,
    group: NetGroup,
    connector: Connector,
    #[cfg(unix)]
    unix: Option<PathBuf>,
    key: Key,
}

impl<R: Receiver> Host<R> {
    /// Creates a host without connections. `connector` has everything but the handlers; `secure`
    /// adds what comes before HTTP in the pipeline.
    pub(super) fn new(
        group: &NetGroup,
        connector: ConnectorBuilder,
        config: &Config,
        counts: Arc<Counts>,
        key: Key,
        secure: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
    ) -> Arc<Self> {
        let limits = config.connection;
        let connector = connector.pipeline(move |p| {
            let connection = Connection::<R>::new(limits, HeadLimits::DEFAULT);
            secure(p).add("http", ClientHandler::new(connection))
        });
        Arc::new(Self {
            pool: Pool::new(
                group.loops().len(),
                config.max_connections,
                config.max_waiting,
            ),
            counts,
            max_waiting: config.max_waiting,
            wait_timeout: config.wait_timeout,
            group: group.clone(),
            connector: connector.build(),
            #[cfg(unix)]
            unix: config.unix.clone(),
            key,
        })
    }

    /// Makes a connection on loop `at`.
    pub(super) fn connect(&self, at: usize) -> Completion<Channel> {
        #[cfg(unix)]
        if let Some(path) = &self.unix {
            return match self.group.loops().iter().nth(at) {
                Some(home) => self.connector.connect_unix_on(home, path),
                None => self.connector.connect_unix(path),
            };
        }
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

    /// Returns the number of the loop of the calling thread, if it is one of the group.
    pub(super) fn current_loop(&self) -> Option<usize> {
        self.group.loops().iter().position(|one| one.is_current())
    }

    /// Returns the number of a loop, in turn.
    pub(super) fn any_loop(&self, turn: u64) -> usize {
        (turn % self.group.loops().len().max(1) as u64) as usize
    }

    /// Runs `run` on loop `at`. A loop that has ended drops it.
    pub(super) fn execute(&self, at: usize, run: impl FnOnce() + Send + 'static) {
        if let Some(home) = self.group.loops().iter().nth(at) {
            drop(home.execute(run));
        }
    }

    /// Returns the time of the clock of loop `at`, in nanoseconds.
    pub(super) fn now(&self, at: usize) -> u64 {
        let home = self.group.loops().iter().nth(at);
        home.map_or(0, |home| home.clock().nanos())
    }

    /// Returns `true` if no connection is open and no call waits.
    pub(super) fn is_unused(&self) -> bool {
        self.pool.load() == (0, 0)
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        for link in self.pool.take_idle() {
            drop(link.channel.close());
        }
    }
}
