//! A gateway: starts, takes over a new configuration, drains.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate::promise::Completion;
use tidegate_core::internal::lock;

use super::changes::{Changes, Ground};
use super::error::StartError;
use super::held::Held;
use super::listener::{Listening, NewCertificates, Prepared};
use super::retired::Retired;
use crate::admin::UpstreamReport;
use crate::config::Config;
use crate::parts::Parts;
use crate::proxy::{Draft, Gate, Live, Lives};

/// Why a configuration without routes does not replace one with routes.
const NO_ROUTES: &str = "no route is left: the file may have been cut off; keep one, such as \
    `[route.none]` with `respond = 404`, or restart";

/// How long a reload waits for the socket of a listener that it has removed.
const CLOSE_TIME: Duration = Duration::from_secs(1);

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
    lives: Arc<Lives>,
    parts: Parts,
    /// `true` from the moment at which a drain is announced.
    is_ending: AtomicBool,
    /// One reload at a time. It is held for long, unlike the state.
    reloading: Mutex<()>,
    held: Held,
    state: Mutex<State>,
}

/// A reload that changes what is in use. At its end, the drains begin that were asked for meanwhile.
struct InUse<'a> {
    gateway: &'a Gateway,
    /// `Some` until it is dropped.
    one: Option<MutexGuard<'a, ()>>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let state = self.gateway.lock();
        let waiting = self.gateway.held.release().into_iter();
        let begun: Vec<_> = waiting
            .map(|one| (state.drain(one.announce, one.deadline), one))
            .collect();
        // What waits for the end of a drain may use the gateway, and reload it.
        drop((state, self.one.take()));
        begun
            .into_iter()
            .for_each(|(drained, one)| one.begun(drained));
    }
}

#[derive(Clone)]
struct State {
    live: Arc<Live>,
    listening: Vec<Arc<Listening>>,
    /// Listeners that accept no more, because they were replaced or removed. Their connections end
    /// under the old configuration.
    retired: Vec<Retired>,
}

impl State {
    /// Drains all listeners.
    fn drain(&self, announce: Duration, deadline: Duration) -> Completion<Summary> {
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
        Unopened::new(config, parts)?.open()
    }

    /// Takes over a new configuration, loop by loop. Requests that have begun end under the old one.
    /// What has not changed stays: listeners, commands with their breakers, connections to servers.
    /// A socket stays with its address; connections that are open keep their settings.
    /// One that is removed closes its idle connections; the others end with their requests and
    /// tunnels, without a deadline. Returns what could not be done.
    ///
    /// # Errors
    ///
    /// What cannot be used or opened. The old configuration stays in force then. A gateway that
    /// drains takes over nothing.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, StartError> {
        let one = lock(&self.reloading);
        let before = self.lock().clone();
        let mut changes = Changes::default();
        let draft = match self.prepare(config, &before, &mut changes) {
            Ok(draft) => draft,
            Err(why) => return Err(self.undo(changes, why)),
        };
        // It is dropped after all that follows.
        let Some(_in_use) = self.begin_change(one) else {
            return Err(self.undo(changes, StartError::Ending));
        };
        let live = match self.change(draft, &before, &mut changes) {
            Ok(live) => live,
            Err(why) => return Err(self.undo(changes, why)),
        };
        let (open, removed): (Vec<_>, Vec<_>) = before
            .listening
            .into_iter()
            .partition(|open| changes.keeps(open));
        let gone = removed.iter().filter(|old| !changes.moves(old));
        let gone: Vec<_> = gone.cloned().collect();
        let mut state = self.lock();
        state.listening = open;
        state.listening.append(&mut changes.added);
        state.live = Arc::clone(&live);
        state.retired.retain(|old| !old.is_over());
        state.retired.extend(removed.iter().map(Retired::new));
        drop(state);
        let certificates = std::mem::take(&mut changes.certificates).into_iter();
        certificates.for_each(NewCertificates::apply);
        self.lives.replace(&live);
        live.begin(Some(&before.live));
        self.retire(&changes.accept_last(self.ground()));
        // Their idle connections end now, the others when their requests and tunnels have ended.
        close_all(&gone, Duration::MAX);
        wait_closed(&gone);
        let changed = changes.changed.into_iter();
        Ok(changed
            .filter_map(|(old, new)| self.exchange(&old, new).err())
            .map(|why| format!("{why}; it is closed until the next start"))
            .collect())
    }

    /// Takes over a configuration that differs from the one in force in the settings of routes only: no file
    /// is read, and listeners and upstreams stay.
    ///
    /// # Errors
    ///
    /// What cannot be used. The old configuration stays in force then, also if a drain has begun.
    pub(super) fn adjust(&self, config: Config) -> Result<(), StartError> {
        let one = lock(&self.reloading);
        let before = self.live();
        let draft = Draft::adjusted(config, &before, &self.parts)?;
        let Some(_in_use) = self.begin_change(one) else {
            return Err(StartError::Ending);
        };
        let (gate, isolation) = (self.lives.gate(), &self.parts.isolation);
        let live = draft.finish(Some(&before), isolation, gate)?;
        self.lock().live = Arc::clone(&live);
        self.lives.replace(&live);
        Ok(())
    }

    /// Makes what a new configuration needs, as far as that touches nothing that is in use: reads all
    /// files, opens new listeners.
    fn prepare(
        &self,
        config: Config,
        before: &State,
        changes: &mut Changes,
    ) -> Result<Draft, StartError> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(StartError::Ending);
        }
        if config.routes.is_empty() && !before.live.config.routes.is_empty() {
            return Err(StartError::Config(NO_ROUTES.to_owned()));
        }
        changes.prepare(&config, &before.listening, self.ground())?;
        Ok(Draft::new(config, Some(&before.live), &self.parts)?)
    }

    /// Makes drains wait from now on: what is in use changes, and no file is read any more. Returns `None`
    /// if a drain has begun.
    fn begin_change<'a>(&'a self, one: MutexGuard<'a, ()>) -> Option<InUse<'a>> {
        // A drain begins under this lock.
        let _state = self.lock();
        if self.is_ending.load(Ordering::Relaxed) {
            return None;
        }
        self.held.hold();
        let one = Some(one);
        Some(InUse { gateway: self, one })
    }

    /// Does what touches what is in use, and may fail.
    fn change(
        &self,
        draft: Draft,
        before: &State,
        changes: &mut Changes,
    ) -> Result<Arc<Live>, StartError> {
        changes.open_blocked(&before.listening, self.ground())?;
        let (gate, isolation) = (self.lives.gate(), &self.parts.isolation);
        Ok(draft.finish(Some(&before.live), isolation, gate)?)
    }

    /// Opens a listener on the socket of an old one.
    fn exchange(&self, old: &Arc<Listening>, new: Prepared) -> Result<(), StartError> {
        let opened = new.take_over(old, &self.lives, &self.parts);
        self.put(old, opened)
    }

    /// Closes what a reload has opened that has failed, and puts old listeners back whose sockets it
    /// needed. Returns why, and what could not be put back.
    fn undo(&self, mut changes: Changes, mut why: StartError) -> StartError {
        close_all(&changes.added, Duration::ZERO);
        for (old, again) in changes.give_back(self.ground()) {
            if let Err(lost) = self.put(&old, again) {
                why = why.and(&format!("{lost}; it is closed until the next start"));
            }
        }
        why
    }

    /// Keeps listeners that accept no more.
    fn retire(&self, last: &[Arc<Listening>]) {
        self.lock().retired.extend(last.iter().map(Retired::new));
    }

    /// Puts a listener in the place of an old one, whose connections stay.
    fn put(
        &self,
        old: &Arc<Listening>,
        opened: Result<Listening, StartError>,
    ) -> Result<(), StartError> {
        let mut state = self.lock();
        let opened = opened.map(Arc::new).inspect(|open| {
            let listeners = &state.live.config.listeners;
            let place = listeners.iter().position(|one| one.name == open.name);
            let place = place.unwrap_or(usize::MAX).min(state.listening.len());
            state.listening.insert(place, Arc::clone(open));
        });
        state.listening.retain(|open| !Arc::ptr_eq(open, old));
        state.retired.retain(|old| !old.is_over());
        state.retired.push(Retired::new(old));
        drop(state);
        opened.map(drop)
    }

    /// Returns what listeners are opened on.
    fn ground(&self) -> Ground<'_> {
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
        let drain = &self.lock().live.config.drain;
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
        Arc::clone(&self.lock().live)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Closes listeners and drains their connections.
fn close_all(listening: &[Arc<Listening>], deadline: Duration) {
    for open in listening {
        // The report is for nobody.
        drop(open.server.drain(deadline));
    }
}

/// Waits until the sockets of listeners are closed, so that their addresses are free. A loop that is busy
/// for long closes them later.
fn wait_closed(listening: &[Arc<Listening>]) {
    for open in listening {
        let _ = open.server.server().closed().wait_timeout(CLOSE_TIME);
    }
}

/// A gateway that has read its files, and does not listen yet.
pub(super) struct Unopened {
    live: Arc<Live>,
    lives: Arc<Lives>,
    listeners: Vec<Prepared>,
    parts: Parts,
}

impl Unopened {
    /// Reads files and finds addresses, which may take long.
    ///
    /// # Errors
    ///
    /// What cannot be used.
    pub(super) fn new(config: Config, parts: Parts) -> Result<Self, StartError> {
        let gate = Gate::new(&parts.group, &parts.reports);
        let draft = Draft::new(config, None, &parts)?;
        let live = draft.finish(None, &parts.isolation, &gate)?;
        let listeners = live.config.listeners.iter();
        let listeners = listeners.map(|one| Prepared::new(one, &parts));
        Ok(Self {
            listeners: listeners.collect::<Result<_, _>>()?,
            lives: Lives::new(&gate, &live),
            live,
            parts,
        })
    }

    /// Opens the listeners.
    ///
    /// # Errors
    ///
    /// What cannot be opened. Nothing listens then.
    pub(super) fn open(self) -> Result<Gateway, StartError> {
        let Self {
            live,
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
        live.begin(None);
        Ok(Gateway {
            lives,
            parts,
            is_ending: AtomicBool::new(false),
            reloading: Mutex::default(),
            held: Held::default(),
            state: Mutex::new(State {
                live,
                listening,
                retired: Vec::new(),
            }),
        })
    }
}

tidegate_core::debug_fields!(Gateway, this => addresses: this.addresses());
