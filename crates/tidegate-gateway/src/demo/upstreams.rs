//! Four servers that can be made slow, failing, hanging or dead.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate::http::{DeferredResponse, HttpServer, Request, Response};
use tidegate::net::NetGroup;
use tidegate::pool::WorkerPool;
use tidegate_core::internal::lock;

/// The names of the servers and of their routes.
pub(crate) const NAMES: [&str; 4] = ["fast", "slow", "flaky", "blocking"];

/// How long the slow server takes, the blocking one, and any other that is made slow.
const SLOW: Duration = Duration::from_millis(50);
const BLOCKING: Duration = Duration::from_millis(5);
const MADE_SLOW: Duration = Duration::from_millis(500);
/// The flaky server fails in this part of each period, in milliseconds.
const FLAKY_PERIOD: u64 = 12_000;
const FLAKY_FAILS: std::ops::Range<u64> = 2_000..5_000;
/// The threads of the blocking server.
const THREADS: usize = 10;
/// How many requests a hanging server keeps.
const KEPT: usize = 1000;

/// What a server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What its name says.
    #[default]
    Normal,
    Slow,
    Failing,
    /// It accepts requests and does not respond.
    Hanging,
    /// It does not listen.
    Dead,
}

impl Mode {
    pub(crate) const ALL: [Self; 5] = [
        Self::Normal,
        Self::Slow,
        Self::Failing,
        Self::Hanging,
        Self::Dead,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Slow => "slow",
            Self::Failing => "failing",
            Self::Hanging => "hanging",
            Self::Dead => "dead",
        }
    }
}

/// The servers.
pub(crate) struct Upstreams {
    group: NetGroup,
    servers: Vec<Arc<Upstream>>,
}

struct Upstream {
    name: &'static str,
    address: SocketAddr,
    workers: WorkerPool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mode: Mode,
    /// Requests without a response.
    kept: VecDeque<DeferredResponse>,
    /// None while the server is dead.
    server: Option<HttpServer>,
}

impl Upstreams {
    /// Starts the servers on free ports of the loopback address.
    pub(crate) fn start() -> tidegate::Result<Self> {
        let group = tidegate::net::pinned("upstreams", 1)?;
        let workers = WorkerPool::builder("blocking")
            .max(THREADS)
            .queue(KEPT)
            .build()?;
        let mut servers = Vec::new();
        for name in NAMES {
            // The port stays that of this server while it is dead.
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let upstream = Arc::new(Upstream {
                name,
                address: listener.local_addr()?,
                workers: workers.clone(),
                state: Mutex::default(),
            });
            drop(listener);
            upstream.listen(&group)?;
            servers.push(upstream);
        }
        Ok(Self { group, servers })
    }

    /// Returns the address of each server.
    pub(crate) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let servers = self.servers.iter();
        servers
            .map(|server| (server.name, server.address))
            .collect()
    }

    /// Returns what a server does.
    pub(crate) fn mode(&self, at: usize) -> Mode {
        self.servers[at].lock().mode
    }

    /// Makes a server do something else. It may block for a moment.
    ///
    /// # Errors
    ///
    /// Why a dead server cannot listen again.
    pub(crate) fn set(&self, at: usize, mode: Mode) -> tidegate::Result<()> {
        let upstream = &self.servers[at];
        let mut state = upstream.lock();
        state.mode = mode;
        // Those of a hanging server get status 500.
        let kept = std::mem::take(&mut state.kept);
        let dead = match mode {
            Mode::Dead => state.server.take(),
            _ => None,
        };
        let listens = state.server.is_some();
        drop(state);
        drop(kept);
        match dead {
            Some(server) => drop(server.drain(Duration::ZERO).wait()),
            None if mode != Mode::Dead && !listens => upstream.listen(&self.group)?,
            None => {}
        }
        Ok(())
    }
}

impl Upstream {
    fn listen(self: &Arc<Self>, group: &NetGroup) -> tidegate::Result<()> {
        let (me, home) = (Arc::clone(self), group.loops().next().clone());
        let start = home.clock().nanos();
        let serve = move |_: Request<'_>, response: Response<'_>| {
            let millis = (home.clock().nanos() - start) / 1_000_000;
            let after = |time: Duration, response: Response<'_>| {
                let response = response.defer();
                // Refused only if the loop ends.
                let _ = home.schedule(time, move || response.body("late\n"));
            };
            let mode = me.lock().mode;
            match (mode, me.name) {
                (Mode::Normal, "slow") => after(SLOW, response),
                (Mode::Normal, "blocking") => me.block(response.defer()),
                (Mode::Normal, "flaky") if FLAKY_FAILS.contains(&(millis % FLAKY_PERIOD)) => {
                    response.status(500).body("flaky\n");
                }
                (Mode::Normal, _) => response.body("hello\n"),
                (Mode::Slow, _) => after(MADE_SLOW, response),
                (Mode::Failing, _) => response.status(500).body("failing\n"),
                (Mode::Hanging | Mode::Dead, _) => me.keep(response.defer()),
            }
        };
        let server = tidegate::http::serve(group, self.address, serve).wait()?;
        self.lock().server = Some(server);
        Ok(())
    }

    /// Responds on a thread that blocks for a fixed time, as for a lock or a file.
    fn block(&self, response: DeferredResponse) {
        let work = move || {
            let (_held, blocked) = channel::<()>();
            let _ = blocked.recv_timeout(BLOCKING);
            response.body("blocked\n");
        };
        // If the queue is full, the response is dropped: status 500.
        let _ = self.workers.submit(work);
    }

    /// Keeps a request without a response.
    fn keep(&self, response: DeferredResponse) {
        let mut state = self.lock();
        state.kept.push_back(response);
        let oldest = match state.kept.len() > KEPT {
            true => state.kept.pop_front(),
            false => None,
        };
        drop(state);
        drop(oldest);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

tidegate_core::debug_fields!(Upstreams, this => addresses: this.addresses());
