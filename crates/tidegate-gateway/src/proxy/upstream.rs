//! An upstream: its servers, and which of them takes a request.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::http::client::Upstream;
use tidegate_core::internal::{HomeCell, lock};

use super::addresses::{Addresses, FirstLookup};
use super::answer::Answer;
use super::copies::Copies;
use super::members::{Before, Members, Recipe};
use super::roster::Roster;
use crate::admin::UpstreamReport;
use crate::balance::{Lease, Picker, Strategy};
use crate::config::types;
use crate::config::{Address, Balance};
use crate::parts::Parts;
use crate::tls::{Expiry, Trust};

/// An upstream.
pub(super) struct UpstreamState {
    pub(super) name: String,
    pub(super) config: types::Upstream,
    /// The first lookups of the settings. Nobody waits for those that are not names.
    pub(super) firsts: Vec<FirstLookup>,
    /// With TLS.
    trust: Option<Arc<Trust>>,
    pub(super) parts: Parts,
    /// Its servers under all settings, and the number of its own settings there.
    pub(super) roster: Arc<Roster>,
    pub(super) number: u64,
    /// The addresses of each setting, sorted. `None` if it is not a name, or not found yet. Held while they
    /// and the members change.
    pub(super) addresses: Mutex<Vec<Option<Vec<SocketAddr>>>>,
    /// The members that were made last.
    pub(super) members: Copies<Members<Answer>>,
    /// One for each loop, and one more for all other threads.
    pickers: Vec<HomeCell<RefCell<Picker>>>,
    other: Mutex<Picker>,
}

/// A server that takes a request.
pub(super) struct Chosen {
    members: Arc<Members<Answer>>,
    server: usize,
}

impl Chosen {
    /// Returns the address of the server as operators see it.
    pub(super) fn label(&self) -> &str {
        self.members.label(self.server)
    }

    /// Returns where the server is: its setting, and the addresses of its name.
    pub(super) fn place(&self) -> (&Address, &Addresses) {
        self.members.place(self.server)
    }

    /// Returns the connections to the server.
    pub(super) fn target(&self) -> &Upstream<Answer> {
        self.members.target(self.server)
    }
}

impl UpstreamState {
    /// Makes an upstream. One that has not changed is the same as before, and servers that have not
    /// changed keep their connections and their requests in flight. `trust` is what was read from the
    /// files of TLS; if their contents have changed, new requests get new connections.
    ///
    /// # Errors
    ///
    /// What is wrong with an address.
    pub(super) fn new(
        name: &str,
        config: &types::Upstream,
        trust: Option<Arc<Trust>>,
        before: Option<&Arc<Self>>,
        parts: &Parts,
    ) -> Result<Arc<Self>, String> {
        let trusts_same = |before: &Self| match (&trust, &before.trust) {
            (Some(own), Some(old)) => Arc::ptr_eq(own, old),
            (own, old) => own.is_none() && old.is_none(),
        };
        if let Some(before) = before
            && before.config == *config
            && trusts_same(before)
        {
            return Ok(Arc::clone(before));
        }
        let roster = before.map_or_else(Arc::default, |before| Arc::clone(&before.roster));
        let firsts: Vec<_> = config.servers.iter().map(|_| FirstLookup::new()).collect();
        let recipe = Recipe {
            upstream: name,
            config,
            firsts: &firsts,
            trust: trust.as_deref(),
            parts,
            roster: &roster,
        };
        let servers = config.servers.iter();
        let addresses: Vec<_> = servers
            .map(|server| before.and_then(|before| before.addresses_of(&server.at)))
            .collect();
        let newest = before.map(|before| before.members.in_force());
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
            addresses: Mutex::new(addresses),
            number: roster.number(),
            roster,
            firsts,
            trust,
        });
        upstream.look_up_names();
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
    /// earlier settings end, also those of servers that are gone.
    pub(super) fn begin(&self) {
        let members = self.roster.put_in_force(self.number, || self.apply());
        // The last one closes connections. Not under a lock.
        drop(members);
    }

    /// Ends the health checks and the lookups of names: the configuration in force does not have the
    /// upstream any more. Requests in flight go on.
    pub(super) fn end(&self) {
        self.roster.end();
    }

    /// Applies the settings to the servers. Called when the settings are in force. Returns the members.
    pub(super) fn apply(&self) -> Arc<Members<Answer>> {
        let members = self.members.in_force();
        members.set_max_in_flight(self.config.max_in_flight.map(|most| most.0));
        members.end_checks(&self.roster);
        members.begin_checks();
        members
    }

    /// Chooses a server and reserves a place, on loop `home`. `avoid` is the server of an earlier
    /// attempt.
    pub(super) fn pick(&self, home: usize, avoid: Option<&Chosen>) -> Option<(Chosen, Lease)> {
        let members = self.members.get(home);
        let avoid = avoid.filter(|avoid| Arc::ptr_eq(&avoid.members, &members));
        let avoid = avoid.map(|avoid| avoid.server);
        let own = self.pickers.get(home).and_then(HomeCell::get);
        let lease = match own.and_then(|own| own.try_borrow_mut().ok()) {
            Some(mut own) => own.pick(&members.states, avoid),
            None => lock(&self.other).pick(&members.states, avoid),
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
        self.members.in_force().drain(name, draining)
    }

    /// Returns the upstream as operators see it.
    pub(super) fn report(&self) -> UpstreamReport {
        UpstreamReport {
            name: self.name.clone(),
            servers: self.members.in_force().report(),
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

    /// Returns what was read from the files of TLS.
    pub(super) fn trust(&self) -> Option<&Arc<Trust>> {
        self.trust.as_ref()
    }

    /// Returns what new members are made of.
    pub(super) fn recipe(&self) -> Recipe<'_> {
        Recipe {
            upstream: &self.name,
            config: &self.config,
            firsts: &self.firsts,
            trust: self.trust.as_deref(),
            parts: &self.parts,
            roster: &self.roster,
        }
    }

    /// Returns the known addresses of a setting.
    fn addresses_of(&self, at: &Address) -> Option<Vec<SocketAddr>> {
        let mut settings = self.config.servers.iter();
        let own = settings.position(|server| server.at == *at)?;
        lock(&self.addresses)[own].clone()
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
