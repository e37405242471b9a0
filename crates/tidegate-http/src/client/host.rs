//! One host: its pool of connections, and how they are made.

use std::net::TcpStream;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::FastClock;
use tidegate_loop::EventLoop;
use tidegate_net::{
    Address, Channel, Client as Connector, ClientBuilder as ConnectorBuilder, NetGroup,
    PipelineBuilder,
};
use tidegate_promise::Completion;

use super::config::Config;
use super::connection::Connection;
use super::counts::Counts;
use super::exchange_handler::ExchangeHandler;
use super::handler::ClientHandler;
use super::limits::ConnectionLimits;
use super::pool::{Bounds, Lease, Pool, Reservation};
use super::slot::{Link, Owner, Record};
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

/// Adds handlers to a pipeline.
type Secure = dyn Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync;

/// One host, and the connections whose responses go to an `R`.
pub(super) struct Host<R: ExchangeHandler> {
    pub(super) pool: Arc<Pool<Link<R>>>,
    pub(super) counts: Arc<Counts>,
    pub(super) max_waiting: usize,
    pub(super) wait_timeout: Duration,
    /// Its connections can move between loops.
    pub(super) moves: bool,
    group: NetGroup,
    /// The clock of each loop.
    clocks: Vec<FastClock>,
    connector: ConnectorBuilder,
    /// Adds what comes before HTTP in the pipeline.
    secure: Arc<Secure>,
    limits: ConnectionLimits,
    #[cfg(unix)]
    unix: Option<PathBuf>,
    key: Key,
}

impl<R: ExchangeHandler> Host<R> {
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
        let loops = group.loops().len();
        #[cfg(unix)]
        let is_tcp = config.unix.is_none();
        #[cfg(not(unix))]
        let is_tcp = true;
        // The state of an encrypted connection stays on its loop.
        let moves = loops > 1 && !key.secure && is_tcp;
        let bounds = Bounds {
            connections: config.max_connections,
            waiting: config.max_waiting,
            keep: config.keep,
        };
        Arc::new(Self {
            pool: Pool::new(loops, bounds, |link| drop(link.channel.close())),
            counts,
            max_waiting: config.max_waiting,
            wait_timeout: config.wait_timeout,
            moves,
            group: group.clone(),
            clocks: group
                .loops()
                .iter()
                .map(|one| FastClock::new(one.clock()))
                .collect(),
            connector,
            secure: Arc::new(secure),
            limits: config.connection,
            #[cfg(unix)]
            unix: config.unix.clone(),
            key,
        })
    }

    /// Returns what an upstream with this label tells its connections.
    pub(super) fn owner(&self, label: &str) -> Arc<Owner<R>> {
        Arc::new(Owner {
            label: Arc::from(label),
            counts: Arc::clone(&self.counts),
            clock: self.clocks.first().cloned(),
            pool: Arc::downgrade(&self.pool),
        })
    }

    /// Makes a connection on loop `at`. Also returns what takes its lease out once the connect has
    /// succeeded: `None` if the connection has ended already. Otherwise the lease ends with the last
    /// socket of the connect, also if that is cancelled.
    pub(super) fn connect(
        &self,
        at: usize,
        mut lease: Lease<Link<R>>,
    ) -> (
        Completion<Channel>,
        impl FnOnce() -> Option<Lease<Link<R>>> + Send + 'static,
    ) {
        lease.set_loop(at);
        let reservation = Reservation::new(lease);
        // Held by the attempts to connect alone.
        let (weak, limits) = (Arc::downgrade(&reservation), self.limits);
        let connector = self.connector_of(move || {
            Connection::new(limits, HeadLimits::DEFAULT).holding(&reservation)
        });
        let channel = self.connect_with(&connector, at);
        (channel, move || weak.upgrade()?.take())
    }

    fn connect_with(&self, connector: &Connector, at: usize) -> Completion<Channel> {
        #[cfg(unix)]
        if let Some(path) = &self.unix {
            return connector.connect_unix_on(self.home(at), path);
        }
        let to = Address::from((self.key.host.as_str(), self.key.port));
        connector.connect_on(self.home(at), to)
    }

    /// Returns what opens one connection, whose state `make` creates.
    fn connector_of(&self, make: impl Fn() -> Connection<R> + Send + Sync + 'static) -> Connector {
        let secure = Arc::clone(&self.secure);
        let pipeline = move |p: PipelineBuilder| secure(p).add("http", ClientHandler::new(make()));
        self.connector.clone().pipeline(pipeline).build()
    }

    /// Moves a connection to loop `to`, with this socket.
    pub(super) fn adopt(
        &self,
        to: usize,
        stream: TcpStream,
        mut lease: Lease<Link<R>>,
        record: Record,
    ) -> Completion<Channel> {
        lease.set_loop(to);
        let reservation = Reservation::new(lease);
        let connector = self.connector_of(move || Connection::resumed(record, reservation.take()));
        connector.adopt_on(self.home(to), stream)
    }

    /// Returns loop `at`.
    pub(super) fn home(&self, at: usize) -> &EventLoop {
        let loops = self.group.loops();
        loops.iter().nth(at).unwrap_or_else(|| loops.next())
    }

    /// Runs `run` on loop `at` after this time.
    pub(super) fn schedule(
        &self,
        at: usize,
        after: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Option<Completion<()>> {
        // A loop that takes no more timers is ending, and the connection with it.
        self.home(at).schedule(after, run).ok()
    }

    /// Returns the number of the loop of the calling thread, if it is one of the group.
    pub(super) fn current_loop(&self) -> Option<usize> {
        self.group.loops().iter().position(|one| one.is_current())
    }

    /// Returns the number of a loop, in turn.
    pub(super) fn any_loop(&self, turn: u64) -> usize {
        (turn % self.group.loops().len().max(1) as u64) as usize
    }

    /// Returns the time of the clock of loop `at`, in nanoseconds.
    pub(super) fn now(&self, at: usize) -> u64 {
        self.clocks.get(at).map_or(0, FastClock::nanos)
    }

    /// Returns `true` if no connection is open and no call waits.
    pub(super) fn is_unused(&self) -> bool {
        self.pool.load() == (0, 0)
    }

    /// Makes the loops offer their free connections, because a call waits.
    pub(super) fn ask_loops(&self) {
        self.on_loops(Pool::offer_own);
    }

    /// Closes the free connections.
    pub(super) fn close_free(&self) {
        let close = |pool: &Pool<Link<R>>, _| {
            for link in pool.take_free() {
                drop(link.channel.close());
            }
        };
        close(&self.pool, 0);
        self.on_loops(close);
    }

    /// Runs `run` on each loop that may have connections, with its number. It is a signal, which a full
    /// loop does not refuse.
    fn on_loops(&self, run: fn(&Pool<Link<R>>, usize)) {
        for (at, home) in self.group.loops().iter().enumerate() {
            // One that is ending closes its connections.
            if self.pool.is_used(at) && !home.is_shutdown() {
                let pool = Arc::clone(&self.pool);
                let (promise, signal) = home.promise::<()>();
                signal.finally(move |_| run(&pool, at));
                drop(promise.succeed(()));
            }
        }
    }
}
