//! An upstream: which of its servers takes a request, and the addresses of their names.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate::http::client::{ExchangeHandler, Upstream};
use tidegate::promise::Outcome;
use tidegate_core::internal::HomeCell;

use super::copies::Copies;
use super::members::{Before, Members, Recipe, name_of};
use super::roster::Roster;
use crate::admin::UpstreamReport;
use crate::balance::{Lease, Picker, Strategy};
use crate::config::types;
use crate::config::{Address, Balance};
use crate::parts::Parts;
use crate::tls::{Expiry, Trust};

/// An upstream. `H` is the handler of responses.
pub(super) struct UpstreamState<H: ExchangeHandler> {
    pub(super) name: String,
    config: types::Upstream,
    /// The addresses of the settings as operators see them.
    labels: Vec<Arc<str>>,
    /// With TLS.
    trust: Option<Arc<Trust>>,
    parts: Parts,
    /// Its servers under all settings, and the number of its own settings there.
    roster: Arc<Roster>,
    number: u64,
    known: Mutex<Known<H>>,
    /// The members, as loops see them.
    members: Copies<Members<H>>,
    /// One for each loop, and one more for all other threads.
    pickers: Vec<HomeCell<RefCell<Picker>>>,
    other: Mutex<Picker>,
}

/// What is known about the servers.
struct Known<H: ExchangeHandler> {
    /// The addresses of each setting, sorted. `None` if it is not a name, or not found yet.
    addresses: Vec<Option<Vec<SocketAddr>>>,
    members: Arc<Members<H>>,
}

/// A server that takes a request.
pub(super) struct Chosen<H: ExchangeHandler> {
    members: Arc<Members<H>>,
    server: usize,
}

impl<H: ExchangeHandler> Chosen<H> {
    /// Returns the address of the server as operators see it.
    pub(super) fn label(&self) -> &str {
        self.members.label(self.server)
    }

    /// Returns where the server is: its setting, and the addresses of its name if they are known.
    pub(super) fn place(&self) -> (&Address, &[SocketAddr]) {
        self.members.place(self.server)
    }

    /// Returns the connections to the server.
    pub(super) fn target(&self) -> &Upstream<H> {
        self.members.target(self.server)
    }
}

impl<H: ExchangeHandler> UpstreamState<H> {
    /// Makes an upstream. One that has not changed is the same as before, and servers that have not
    /// changed keep their connections and their requests in flight. The files of TLS are read again;
    /// if their contents have changed, new requests get new connections.
    ///
    /// # Errors
    ///
    /// What is wrong with a file or an address.
    pub(super) fn new(
        name: &str,
        config: &types::Upstream,
        labels: Vec<Arc<str>>,
        before: Option<&Arc<Self>>,
        parts: &Parts,
    ) -> Result<Arc<Self>, String> {
        let old = before.and_then(|before| before.trust.as_ref());
        let trust = trust(config, old, parts)?;
        let trusts_same = |before: &Self| match (&trust, &before.trust) {
            (Some(own), Some(old)) => Arc::ptr_eq(own, old),
            (own, old) => own.is_none() && old.is_none(),
        };
        if let Some(before) = before
            && before.config == *config
            && before.labels == labels
            && trusts_same(before)
        {
            return Ok(Arc::clone(before));
        }
        let roster = before.map_or_else(Arc::default, |before| Arc::clone(&before.roster));
        let recipe = Recipe {
            upstream: name,
            config,
            labels: &labels,
            trust: trust.as_deref(),
            parts,
            roster: &roster,
        };
        let servers = config.servers.iter();
        let addresses: Vec<_> = servers
            .map(|server| before.and_then(|before| before.addresses_of(&server.at)))
            .collect();
        let newest = before.map(|before| before.newest());
        let old = before.zip(newest.as_deref());
        let old = old.map(|(before, members)| Before {
            members,
            same_connections: trusts_same(before) && before.connects_as(config),
            same_checks: before.config.health == config.health,
        });
        let members = Arc::new(Members::new(&recipe, &addresses, old.as_ref())?);
        let loops = parts.group.loops().len();
        let upstream = Arc::new(Self {
            name: name.to_owned(),
            config: config.clone(),
            parts: parts.clone(),
            members: Copies::new(loops, &members),
            pickers: pickers(config.balance, loops),
            other: Mutex::new(picker(config.balance, loops)),
            known: Mutex::new(Known { addresses, members }),
            number: roster.number(),
            roster,
            labels,
            trust,
        });
        for setting in 0..upstream.config.servers.len() {
            let weak = Arc::downgrade(&upstream);
            Self::look_up(&weak, setting);
            upstream.give_up_later(weak, setting);
        }
        Ok(upstream)
    }

    /// Returns `true` if these settings make connections in the same way, apart from the files of TLS.
    fn connects_as(&self, config: &types::Upstream) -> bool {
        let own = &self.config;
        own.tls == config.tls
            && own.connect_timeout == config.connect_timeout
            && own.idle == config.idle
    }

    /// Puts the settings in force: the limits of the servers, and their health checks. The checks of
    /// earlier settings end.
    pub(super) fn begin(&self) {
        let members = self.roster.put_in_force(self.number, || self.apply());
        // The last one closes connections. Not under a lock.
        drop(members);
    }

    /// Applies the settings to the servers. Called when the settings are in force. Returns the members.
    fn apply(&self) -> Arc<Members<H>> {
        let members = self.newest();
        members.set_max_in_flight(self.config.max_in_flight.map(|most| most.0));
        members.end_checks();
        members.begin_checks();
        members
    }

    /// Chooses a server and reserves a place, on loop `home`. `avoid` is the server of an earlier
    /// attempt.
    pub(super) fn pick(
        &self,
        home: usize,
        avoid: Option<&Chosen<H>>,
    ) -> Option<(Chosen<H>, Lease)> {
        let members = self.members.get(home);
        let avoid = avoid.filter(|avoid| Arc::ptr_eq(&avoid.members, &members));
        let avoid = avoid.map(|avoid| avoid.server);
        let own = self.pickers.get(home).and_then(HomeCell::get);
        let lease = match own.and_then(|own| own.try_borrow_mut().ok()) {
            Some(mut own) => own.pick(&members.states, avoid),
            None => locked(&self.other).pick(&members.states, avoid),
        }?;
        let chosen = Chosen {
            members: Arc::clone(&members),
            server: lease.server,
        };
        Some((chosen, lease))
    }

    /// Returns the time for a connection to be established.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.config.connect_timeout
    }

    /// Drains the servers that operators see under this name, or ends their drain. The name of a
    /// setting stands for all of its servers. Returns `false` if there is none.
    pub(super) fn drain(&self, name: &str, draining: bool) -> bool {
        self.newest().drain(name, draining)
    }

    /// Returns the upstream as operators see it.
    pub(super) fn report(&self) -> UpstreamReport {
        UpstreamReport {
            name: self.name.clone(),
            servers: self.newest().report(),
        }
    }

    /// Returns the settings of the certificates of TLS, and when each expires.
    pub(super) fn expiries(&self) -> impl Iterator<Item = (String, Expiry)> {
        let known = self.trust.iter().flat_map(|trust| &trust.expiries);
        known.map(|(setting, expiry)| {
            let setting = format!("upstream.{}.tls.{setting}", self.name);
            (setting, expiry.clone())
        })
    }

    /// Returns the members that were made last.
    fn newest(&self) -> Arc<Members<H>> {
        Arc::clone(&locked(&self.known).members)
    }

    /// Returns the known addresses of a setting.
    fn addresses_of(&self, at: &Address) -> Option<Vec<SocketAddr>> {
        let mut settings = self.config.servers.iter();
        let own = settings.position(|server| server.at == *at)?;
        locked(&self.known).addresses[own].clone()
    }

    /// Looks up the name of a setting, if it has one, again and again. Ends with the upstream, or when
    /// another one with the same name takes its place.
    fn look_up(weak: &Weak<Self>, setting: usize) {
        let Some(upstream) = Self::wanted(weak) else {
            return;
        };
        let Some((host, port)) = name_of(&upstream.config.servers[setting].at) else {
            return;
        };
        let weak = weak.clone();
        let found = upstream.parts.resolver.look_up(host, port);
        found.finally(move |found| {
            let Some(upstream) = Self::wanted(&weak) else {
                return;
            };
            let found = match found {
                Outcome::Success(found) if found.is_empty() => Err("it has no address".to_owned()),
                Outcome::Success(found) => Ok(found.clone()),
                Outcome::Failure(why) => Err(why.to_string()),
                Outcome::Cancelled => Err("the lookup was cancelled".to_owned()),
            };
            upstream.learn(setting, found);
            upstream.look_up_later(weak, setting);
        });
    }

    /// Returns the upstream, unless another one has taken its place.
    fn wanted(weak: &Weak<Self>) -> Option<Arc<Self>> {
        let own = weak.upgrade();
        own.filter(|own| !own.roster.is_over(own.number))
    }

    fn look_up_later(&self, weak: Weak<Self>, setting: usize) {
        let every = self.config.resolve_every.max(SHORTEST);
        let home = self.parts.group.loops().next();
        // A loop that takes no timers is ending.
        drop(home.schedule_coarse(every, move || Self::look_up(&weak, setting)));
    }

    /// Requests wait for the first lookup of a name as long as for a connection.
    fn give_up_later(&self, weak: Weak<Self>, setting: usize) {
        if name_of(&self.config.servers[setting].at).is_none() {
            return;
        }
        let home = self.parts.group.loops().next();
        let give_up = move || {
            let Some(upstream) = Self::wanted(&weak) else {
                return;
            };
            upstream.set_not_found(setting, "in time");
        };
        drop(home.schedule_coarse(self.config.connect_timeout, give_up));
    }

    /// The name of a setting was not found. Returns `true` if it never was: its server gets no requests.
    fn set_not_found(&self, setting: usize, when: &str) -> bool {
        let known = locked(&self.known);
        if known.addresses[setting].is_some() {
            return false;
        }
        let at = &self.config.servers[setting].at;
        let is_new = known.members.set_not_found(at);
        drop(known);
        if is_new {
            let (name, label) = (&self.name, &self.labels[setting]);
            let what = format!("upstream.{name} {label}: the name is not found {when}");
            self.parts
                .reports
                .change("resolver", what.trim_end().to_owned());
        }
        true
    }

    /// Returns what members are made from.
    fn recipe(&self) -> Recipe<'_> {
        Recipe {
            upstream: &self.name,
            config: &self.config,
            labels: &self.labels,
            trust: self.trust.as_deref(),
            parts: &self.parts,
            roster: &self.roster,
        }
    }

    /// Takes over the addresses of a name. A name that is not found keeps its addresses.
    fn learn(self: &Arc<Self>, setting: usize, found: Result<Vec<SocketAddr>, String>) {
        let (name, label, reports) = (&self.name, &self.labels[setting], &self.parts.reports);
        let mut found = match found {
            Ok(found) => found,
            Err(why) => {
                let then = match self.set_not_found(setting, "") {
                    true => "it gets no requests until it is found",
                    false => "its last addresses stay",
                };
                let text = format!("upstream.{name} {label}: the name is not found: {why}; {then}");
                return reports.problems.report("resolve", text);
            }
        };
        // The order changes with each answer of some servers.
        found.sort_unstable();
        found.dedup();
        let mut known = locked(&self.known);
        if known.addresses[setting].as_ref() == Some(&found) {
            return;
        }
        let texts: Vec<String> = found.iter().map(|one| one.ip().to_string()).collect();
        let mut addresses = known.addresses.clone();
        addresses[setting] = Some(found);
        let before = Before {
            members: &known.members,
            same_connections: true,
            same_checks: true,
        };
        let made = Members::new(&self.recipe(), &addresses, Some(&before));
        let members = match made {
            Ok(members) => Arc::new(members),
            Err(why) => {
                drop(known);
                return reports
                    .problems
                    .report("resolve", format!("upstream.{name}: {why}"));
            }
        };
        known.addresses = addresses;
        let old = std::mem::replace(&mut known.members, Arc::clone(&members));
        let old_of_loops = self.members.replace(&members);
        drop(known);
        let applied = self.roster.if_in_force(self.number, || self.apply());
        // The last one closes connections. Not under a lock.
        drop((old, old_of_loops, members, applied));
        // A loop without requests has the old ones, too.
        for (home, one) in self.parts.group.loops().iter().enumerate() {
            let upstream = Arc::clone(self);
            drop(one.execute(move || upstream.members.refresh(home)));
        }
        let what = format!("upstream.{name} {label}: {}", texts.join(", "));
        reports.change("resolver", what);
    }
}

/// Reads the files of TLS, if the upstream has TLS. `before` is what was read the last time.
fn trust(
    config: &types::Upstream,
    before: Option<&Arc<Trust>>,
    parts: &Parts,
) -> Result<Option<Arc<Trust>>, String> {
    let now = (parts.reports.wall)();
    let read = config.tls.as_ref();
    let read = read.map(|tls| Trust::read(tls, before, now));
    read.transpose().map_err(|wrong| wrong.why)
}

/// The shortest time between two lookups of a name.
const SHORTEST: Duration = Duration::from_millis(100);

impl<H: ExchangeHandler> fmt::Debug for UpstreamState<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamState")
            .field("name", &self.name)
            .field("servers", &self.labels)
            .finish_non_exhaustive()
    }
}

/// Returns the pickers of all loops.
fn pickers(balance: Balance, loops: usize) -> Vec<HomeCell<RefCell<Picker>>> {
    let of_loop = |home| HomeCell::new(RefCell::new(picker(balance, home)));
    (0..loops).map(of_loop).collect()
}

/// Returns the picker of a loop, which chooses differently from those of the others.
fn picker(balance: Balance, home: usize) -> Picker {
    let strategy = match balance {
        Balance::RoundRobin => Strategy::RoundRobin,
        Balance::LeastInFlight => Strategy::LeastInFlight,
        Balance::Random => Strategy::Random,
    };
    Picker::new(strategy, home as u64 + 1)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
