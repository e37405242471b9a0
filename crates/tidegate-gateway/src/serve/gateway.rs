//! A gateway: starts, shows what it has, drains. [`turn`](super::turn) changes it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate::promise::Completion;
use tidegate_core::internal::lock;

use super::changes::Ground;
use super::error::StartError;
use super::held::Held;
use super::listener::{Listening, Prepared};
use super::retired::Retired;
use crate::admin::UpstreamReport;
use crate::config::Config;
use crate::parts::Parts;
use crate::proxy::{Draft, Gate, Live, Lives};
use crate::tls::TlsFiles;

/// A running gateway. Dropping it leaves its listeners to the loops of its group, until these end.
///
/// ```
/// use std::path::Path;
/// use std::time::Duration;
/// use tidegate::isolate::Isolation;
/// use tidegate_gateway::config::{self, Disk};
/// use tidegate_gateway::serve::Gateway;
///
/// struct OneFile(&'static str);
/// impl Disk for OneFile {
///     fn read(&self, _: &Path) -> std::io::Result<String> {
///         Ok(self.0.to_owned())
///     }
/// }
///
/// let file = OneFile(
///     "[listen]\n\
///      http = \"127.0.0.1:0\"\n\
///      [route.hello]\n\
///      respond = { status = 200, body = \"hello\" }\n",
/// );
/// let config = config::load(Path::new("tidegate.toml"), &file, &|_| None)?.config.unwrap();
/// let group = tidegate::net::pinned("gateway", 1)?;
/// let gateway = Gateway::start(config, &group, &Isolation::builder().build()?)?;
/// for (name, address) in gateway.addresses() {
///     println!("{name} http://{address}/");
/// }
/// println!("{}", gateway.drain(Duration::ZERO, Duration::from_secs(5)).wait()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    /// With the configuration that is in force.
    pub(super) lives: Arc<Lives>,
    pub(super) parts: Parts,
    /// `true` from the moment at which a drain is announced.
    is_ending: AtomicBool,
    /// Held by the [`Turn`](super::turn::Turn): for long, unlike the state.
    pub(super) changing: Mutex<()>,
    pub(super) held: Held,
    state: Mutex<State>,
}

/// The listeners.
pub(super) struct State {
    pub(super) listening: Vec<Arc<Listening>>,
    /// Listeners that accept no more, because they were replaced or removed. Their connections end
    /// under the old configuration.
    pub(super) retired: Vec<Retired>,
}

impl State {
    /// Drains all listeners.
    pub(super) fn drain(&self, announce: Duration, deadline: Duration) -> Completion<Summary> {
        let open = self.listening.iter().map(|open| &open.server);
        let retired = self.retired.iter().map(|old| &old.server);
        let drains: Vec<_> = open
            .chain(retired)
            .map(|server| match announce.is_zero() {
                true => server.drain(deadline),
                false => server.drain_after(announce, deadline),
            })
            .collect();
        Completion::all(drains).map(|reports| {
            let mut summary = Summary::default();
            for report in reports {
                summary.open += report.open;
                summary.cut += report.closed_at_deadline.len() + report.still_running;
            }
            summary
        })
    }
}

/// What a drain has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many connections were open when the drain began.
    pub open: usize,
    /// How many of them were cut at the deadline.
    pub cut: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connections that were open: {}, cut at the deadline: {}",
            self.open, self.cut
        )
    }
}

impl Gateway {
    /// Starts a gateway on the loops of `group`: all listeners are open then. Its reports can be
    /// read by `tracing` only.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. Nothing listens then.
    pub fn start(
        config: Config,
        group: &NetGroup,
        isolation: &Isolation,
    ) -> Result<Self, StartError> {
        Self::start_with(config, Parts::new(group, isolation))
    }

    /// Starts a gateway on these parts.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. Nothing listens then.
    pub fn start_with(config: Config, parts: Parts) -> Result<Self, StartError> {
        let now = (parts.reports.wall)();
        let tls = TlsFiles::read(&config, |_| None, now);
        Unopened::new(config, tls, parts)?.open()
    }

    /// Returns what listeners are opened on.
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground {
            lives: &self.lives,
            parts: &self.parts,
        }
    }

    /// Returns the name and the address of each listener.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let all = state.listening.iter();
        all.map(|open| (open.name.clone(), open.address()))
            .collect()
    }

    /// Returns the times of a drain: how long it is announced, and how long requests may take after
    /// that.
    pub fn drain_times(&self) -> (Duration, Duration) {
        let drain = &self.live().config.drain;
        (drain.announce, drain.deadline)
    }

    /// Announces the end, and stops accepting after `announce`. Requests in flight may take until
    /// `deadline` after that; idle connections end at once. Until the announcement is over, each
    /// response ends its connection. A reload that is being put in force ends before; the gateway is not
    /// ready meanwhile.
    pub fn drain(&self, announce: Duration, deadline: Duration) -> Completion<Summary> {
        let state = self.lock();
        // Under the lock, so that no reload opens a listener after this.
        self.is_ending.store(true, Ordering::Relaxed);
        let gate = self.lives.gate();
        gate.cut_after(announce.saturating_add(deadline));
        let held = self.held.wait(announce, deadline);
        held.unwrap_or_else(|| state.drain(announce, deadline))
    }

    /// Notes that the gateway itself ends the connections that are open now.
    pub(super) fn cut(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.lives.gate().cut_after(Duration::ZERO);
    }

    /// Removes the paths of Unix sockets, which others may still have handles to.
    pub(super) fn remove_paths(&self) {
        let listening = self.listening();
        for path in listening.iter().filter_map(|open| open.path()) {
            path.remove();
        }
    }

    /// Returns `true` until a drain is announced.
    pub fn is_ready(&self) -> bool {
        !self.is_ending.load(Ordering::Relaxed)
    }

    /// Returns the isolation whose commands are the routes.
    pub fn isolation(&self) -> &Isolation {
        &self.parts.isolation
    }

    /// Returns the upstreams and their servers.
    pub fn upstreams(&self) -> Vec<UpstreamReport> {
        self.live().report()
    }

    /// Drains a server, or ends its drain: it gets no further requests, and those in flight finish.
    /// It stays drained after a reload. Returns `false` if there is no such server.
    pub fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        self.live().drain_server(upstream, server, draining)
    }

    /// Returns the listeners that are open.
    pub(super) fn listening(&self) -> Vec<Arc<Listening>> {
        self.lock().listening.clone()
    }

    /// Returns the listeners that accept no more and still have connections.
    pub(super) fn retired(&self) -> Vec<Retired> {
        self.lock().retired.clone()
    }

    /// Returns the configuration that is in force.
    pub(super) fn live(&self) -> Arc<Live> {
        self.lives.in_force()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Closes listeners and drains their connections.
pub(super) fn close_all(listening: &[Arc<Listening>], deadline: Duration) {
    for open in listening {
        // The report is for nobody.
        drop(open.server.drain(deadline));
    }
}

/// A gateway that has read its files, and does not listen yet.
pub(super) struct Unopened {
    draft: Draft,
    lives: Arc<Lives>,
    listeners: Vec<Prepared>,
    parts: Parts,
}

impl Unopened {
    /// Makes all that a gateway needs, and finds addresses, which may take long.
    ///
    /// # Errors
    ///
    /// What cannot be used.
    pub(super) fn new(config: Config, mut tls: TlsFiles, parts: Parts) -> Result<Self, StartError> {
        let gate = Gate::new(&parts.group, &parts.reports);
        let draft = Draft::new(config, None, &tls, (&gate, &parts))?;
        let listeners = draft.live().config.listeners.iter();
        let listeners = listeners.map(|one| Prepared::new(one, &mut tls, &parts));
        Ok(Self {
            listeners: listeners.collect::<Result<_, _>>()?,
            lives: Lives::new(&gate, draft.live()),
            draft,
            parts,
        })
    }

    /// Opens the listeners.
    ///
    /// # Errors
    ///
    /// What cannot be opened. Nothing listens then, and the isolation has no commands.
    pub(super) fn open(self) -> Result<Gateway, StartError> {
        let Self {
            draft,
            lives,
            listeners,
            parts,
        } = self;
        let mut listening = Vec::new();
        for prepared in listeners {
            match prepared.open(&lives, &parts, false) {
                Ok(open) => listening.push(Arc::new(open)),
                Err(why) => {
                    close_all(&listening, Duration::ZERO);
                    return Err(why);
                }
            }
        }
        draft.apply(&parts.isolation).begin(None);
        Ok(Gateway {
            lives,
            parts,
            is_ending: AtomicBool::new(false),
            changing: Mutex::default(),
            held: Held::default(),
            state: Mutex::new(State {
                listening,
                retired: Vec::new(),
            }),
        })
    }
}

tidegate_core::debug_fields!(Gateway, this => addresses: this.addresses());
