//! The names of an upstream's servers, which are looked up again and again.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::promise::Outcome;
use tidegate_core::internal::lock;

use super::addresses::name_of;
use super::members::{Before, Members};
use super::upstream::UpstreamState;

/// The shortest time between two lookups of a name.
const SHORTEST: Duration = Duration::from_millis(100);

impl UpstreamState {
    /// Looks up the names of all settings.
    pub(super) fn look_up_names(self: &Arc<Self>) {
        for setting in 0..self.config.servers.len() {
            let weak = Arc::downgrade(self);
            Self::look_up(&weak, setting);
            self.give_up_later(weak, setting);
        }
    }

    /// Looks up the name of a setting, if it has one, again and again. Ends with the upstream, or when
    /// other settings take its place, or none.
    fn look_up(weak: &Weak<Self>, setting: usize) {
        let Some(upstream) = Self::wanted(weak) else {
            return;
        };
        let Some((host, port)) = name_of(&upstream.config.servers[setting].at) else {
            return;
        };
        let (weak, first) = (weak.clone(), upstream.firsts[setting].clone());
        let found = upstream.parts.resolver.look_up(host, port);
        found.finally(move |found| {
            let found = match found {
                Outcome::Success(found) if found.is_empty() => Err("it has no address".to_owned()),
                Outcome::Success(found) => Ok(found.clone()),
                Outcome::Failure(why) => Err(why.to_string()),
                Outcome::Cancelled => Err("the lookup was cancelled".to_owned()),
            };
            if let Some(upstream) = Self::wanted(&weak) {
                upstream.learn(setting, found.clone());
                upstream.look_up_later(weak, setting);
            }
            first.end(found);
        });
    }

    /// Returns the upstream, unless other settings have taken its place, or it is gone.
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
        let first = self.firsts[setting].clone();
        let give_up = move || {
            if let Some(upstream) = Self::wanted(&weak) {
                upstream.set_not_found(setting, "in time");
            }
            first.end(Err("the name is not found in time".to_owned()));
        };
        drop(home.schedule_coarse(self.config.connect_timeout, give_up));
    }

    /// The name of a setting was not found. Returns `true` if it never was: its server gets no requests.
    fn set_not_found(&self, setting: usize, when: &str) -> bool {
        let known = lock(&self.addresses);
        if known[setting].is_some() {
            return false;
        }
        let at = &self.config.servers[setting].at;
        let members = self.members.in_force();
        let is_new = members.set_not_found(at);
        // Before the members: the last one closes connections.
        drop(known);
        if is_new {
            let name = &self.name;
            let what = format!("upstream.{name} {at}: the name is not found {when}");
            self.parts
                .reports
                .change("resolver", what.trim_end().to_owned());
        }
        true
    }

    /// Takes over the addresses of a name. A name that is not found keeps its addresses.
    fn learn(self: &Arc<Self>, setting: usize, found: Result<Vec<SocketAddr>, String>) {
        let (name, reports) = (&self.name, &self.parts.reports);
        let at = &self.config.servers[setting].at;
        let mut found = match found {
            Ok(found) => found,
            Err(why) => {
                let then = match self.set_not_found(setting, "") {
                    true => "it gets no requests until it is found",
                    false => "its last addresses stay",
                };
                let text = format!("upstream.{name} {at}: the name is not found: {why}; {then}");
                return reports.problems.report("resolve", text);
            }
        };
        // The order changes with each answer of some servers.
        found.sort_unstable();
        found.dedup();
        let mut known = lock(&self.addresses);
        if known[setting].as_ref() == Some(&found) {
            return;
        }
        let texts: Vec<String> = found.iter().map(|one| one.ip().to_string()).collect();
        let (mut addresses, newest) = (known.clone(), self.members.in_force());
        addresses[setting] = Some(found);
        let before = Before {
            members: &newest,
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
        *known = addresses;
        let old = self.members.replace(&members);
        drop(known);
        let applied = self.roster.if_in_force(self.number, || self.apply());
        // The last one closes connections. Not under a lock.
        drop((old, newest, members, applied));
        // A loop without requests has the old ones, too.
        for (home, one) in self.parts.group.loops().iter().enumerate() {
            let upstream = Arc::clone(self);
            drop(one.execute(move || upstream.members.refresh(home)));
        }
        let what = format!("upstream.{name} {at}: {}", texts.join(", "));
        reports.change("resolver", what);
    }
}
