//! The servers of an upstream at one moment: one for each address.
//!
//! A name that has several addresses is several servers. One without a known address is a server that gets no
//! requests, unless it is being looked up and no other server takes them. When its addresses or its settings change, the
//! upstream gets new members; servers that stay keep their requests in flight and their state, and their
//! connections if these are made in the same way. Requests that have begun hold the members with which
//! they began. `H` is the handler of their responses.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::http::client::{ExchangeHandler, Upstream};

use super::addresses::{Addresses, FirstLookup, name_of};
use super::roster::{Identity, Roster};
use super::target::{Place, calls, target};
use crate::admin::ServerReport;
use crate::balance::ServerState;
use crate::config::{Address, types};
use crate::health::{Checked, Checker};
use crate::parts::Parts;
use crate::tls::Trust;

/// The servers of an upstream, and their states in the same order.
pub(super) struct Members<H: ExchangeHandler> {
    list: Vec<Member<H>>,
    pub(super) states: Vec<ServerState>,
}

/// A server.
struct Member<H: ExchangeHandler> {
    identity: Identity,
    weight: u32,
    addresses: Addresses,
    /// The address as operators see it.
    label: Arc<str>,
    target: Upstream<H>,
    /// Dropping the last one ends the checks.
    checker: Option<Arc<Checker>>,
}

/// What members are made of.
pub(super) struct Recipe<'a> {
    pub(super) upstream: &'a str,
    pub(super) config: &'a types::Upstream,
    /// The first lookups of the settings.
    pub(super) firsts: &'a [FirstLookup],
    /// With TLS.
    pub(super) trust: Option<&'a Trust>,
    pub(super) parts: &'a Parts,
    pub(super) roster: &'a Roster,
}

/// The members before, and what of them stays besides the states of their servers.
pub(super) struct Before<'a, H: ExchangeHandler> {
    pub(super) members: &'a Members<H>,
    /// The connections are made in the same way.
    pub(super) same_connections: bool,
    pub(super) same_checks: bool,
}

impl<H: ExchangeHandler> Members<H> {
    /// Makes the members for the addresses that each setting stands for. `None` means that a setting
    /// says where to connect, or that its name is not found yet. A server that was there before stays, and a drained one stays drained.
    ///
    /// # Errors
    ///
    /// What is wrong with an address.
    pub(super) fn new(
        recipe: &Recipe<'_>,
        known: &[Option<Vec<SocketAddr>>],
        before: Option<&Before<'_, H>>,
    ) -> Result<Self, String> {
        let mut places = Vec::new();
        for (index, known) in known.iter().enumerate() {
            match known {
                None => places.push((index, recipe.unknown(index))),
                Some(known) => places.extend(ways(known).map(|way| (index, Addresses::Known(way)))),
            }
        }
        let count = places.len();
        let mut members = Self {
            list: Vec::new(),
            states: Vec::new(),
        };
        for (number, (index, addresses)) in places.into_iter().enumerate() {
            let at = &recipe.config.servers[index].at;
            let identity = members.identity(at, addresses.best());
            let place = (number, count);
            let (member, state) = recipe.member(index, (identity, addresses), place, before)?;
            members.list.push(member);
            members.states.push(state);
        }
        Ok(members)
    }

    /// Begins the health checks that have not begun.
    pub(super) fn begin_checks(&self) {
        let checkers = self
            .list
            .iter()
            .filter_map(|member| member.checker.as_ref());
        checkers.for_each(Checker::begin);
    }

    /// Ends the health checks of servers that have none any more, or are no members. A member without any
    /// is up.
    pub(super) fn end_checks(&self, roster: &Roster) {
        roster.forget_checkers(|other| self.find(other).is_some());
        for (member, state) in self.list.iter().zip(&self.states) {
            if member.checker.is_none() {
                state.end_checks();
            }
        }
    }

    /// Sets the largest number of requests in flight of each server.
    pub(super) fn set_max_in_flight(&self, most: Option<u32>) {
        let states = self.states.iter();
        states.for_each(|state| state.set_max_in_flight(most));
    }

    /// Returns what makes the next member the same as one of other members.
    fn identity(&self, at: &Address, address: Option<&SocketAddr>) -> Identity {
        let own = self.list.iter().map(|member| &member.identity);
        let own = own.filter(|own| own.at == *at && own.address.as_ref() == address);
        Identity {
            at: at.clone(),
            address: address.copied(),
            repeated: own.count(),
        }
    }

    fn find(&self, identity: &Identity) -> Option<&Member<H>> {
        self.list.iter().find(|own| own.identity == *identity)
    }

    /// The name of this setting was not found: its server gets no requests. Returns `true` if that is
    /// new.
    pub(super) fn set_not_found(&self, at: &Address) -> bool {
        let all = self.list.iter().zip(&self.states);
        let own = all.filter(|(member, state)| member.identity.at == *at && !state.has_address());
        own.fold(false, |is_new, (_, state)| state.set_not_found() | is_new)
    }

    /// Returns the connections to a server.
    pub(super) fn target(&self, server: usize) -> &Upstream<H> {
        &self.list[server].target
    }

    /// Returns where a server is.
    pub(super) fn place(&self, server: usize) -> Place<'_> {
        let member = &self.list[server];
        (&member.identity.at, &member.addresses)
    }

    /// Returns the address of a server as operators see it.
    pub(super) fn label(&self, server: usize) -> &str {
        &self.list[server].label
    }

    /// Drains the servers that operators see under this name, or ends their drain. Returns `false`
    /// if there is none.
    pub(super) fn drain(&self, name: &str, draining: bool) -> bool {
        let mut found = false;
        for (member, state) in self.list.iter().zip(&self.states) {
            if *member.label == *name || member.identity.at.to_string() == name {
                state.set_draining(draining);
                found = true;
            }
        }
        found
    }

    /// Returns `true` if an operator drains this server, or all servers of its setting.
    fn drains(&self, at: &Address, label: &str) -> bool {
        let all = self.list.iter().zip(&self.states);
        let mut own = all
            .filter(|(member, _)| member.identity.at == *at)
            .peekable();
        if own.peek().is_none() {
            return false;
        }
        let mut is_all = true;
        for (member, state) in own {
            if *member.label == *label {
                return state.is_draining();
            }
            is_all &= state.is_draining();
        }
        is_all
    }

    /// Returns the servers as operators see them.
    pub(super) fn report(&self) -> Vec<ServerReport> {
        let all = self.list.iter().zip(&self.states);
        all.map(|(member, state)| ServerReport {
            address: member.label.to_string(),
            weight: member.weight,
            in_flight: state.in_flight(),
            calls: state.calls(),
            is_up: state.is_up() && state.has_address(),
            is_found: state.has_address(),
            is_draining: state.is_draining(),
        })
        .collect()
    }
}

impl Recipe<'_> {
    /// Returns the addresses of a setting for which none is known.
    fn unknown(&self, index: usize) -> Addresses {
        match name_of(&self.config.servers[index].at) {
            Some(_) => Addresses::Awaited(self.firsts[index].clone()),
            None => Addresses::Setting,
        }
    }

    /// Makes a member, or takes over that of before. Its server is the same as before in any case.
    fn member<H: ExchangeHandler>(
        &self,
        index: usize,
        (identity, addresses): (Identity, Addresses),
        place: (usize, usize),
        before: Option<&Before<'_, H>>,
    ) -> Result<(Member<H>, ServerState), String> {
        let weight = self.config.servers[index].weight;
        let at = &identity.at;
        let label: Arc<str> = match addresses.best() {
            Some(address) => format!("{at}@{}", address.ip()).into(),
            None => at.to_string().into(),
        };
        let state = self.roster.server(&identity, weight, self.most());
        if addresses.are_awaited() {
            state.set_no_address();
        }
        let old = before.and_then(|before| Some((before, before.members.find(&identity)?)));
        if old.is_none() && before.is_some_and(|b| b.members.drains(&identity.at, &label)) {
            state.set_draining(true);
        }
        // Each upstream has first lookups of its own.
        let kept = old.filter(|(before, old)| {
            let is_same = old.addresses.known() == addresses.known();
            before.same_connections && is_same && !addresses.are_awaited()
        });
        let (addresses, target, checker) = match kept {
            Some((_, old)) => (
                old.addresses.clone(),
                old.target.clone(),
                old.checker.clone(),
            ),
            None => {
                let (at, group) = ((&identity.at, &addresses), &self.parts.group);
                let target = target(at, self.config, self.trust, group)?;
                (addresses, target, None)
            }
        };
        let mut member = Member {
            identity,
            weight,
            addresses,
            label,
            target,
            checker,
        };
        // A check has the label in its reports.
        if kept.is_none_or(|(before, old)| !before.same_checks || old.label != member.label) {
            member.checker = self.check(&member, &state, place);
        }
        Ok((member, state))
    }

    fn most(&self) -> Option<u32> {
        self.config.max_in_flight.map(|most| most.0)
    }

    /// Makes the health checks of a server, if it has any and can be reached.
    fn check<H: ExchangeHandler>(
        &self,
        member: &Member<H>,
        state: &ServerState,
        place: (usize, usize),
    ) -> Option<Arc<Checker>> {
        let health = self.config.health.as_ref();
        let health = health.filter(|_| state.has_address())?;
        let (at, group) = (&member.identity.at, &self.parts.group);
        let (client, url) = calls((at, &member.addresses), self.config, self.trust, group);
        let checked = Checked {
            upstream: self.upstream.to_owned(),
            at: at.clone(),
            addresses: member.addresses.known().to_vec(),
            label: Arc::clone(&member.label),
            state: state.clone(),
            client: client.max_connections(1).build(),
            url,
            reports: self.parts.reports.clone(),
        };
        Some(Checker::new(checked, health, group, place))
    }
}

/// Returns a list of addresses for each server that a name stands for. A server that has addresses
/// of both families is one server: each way begins with an address of the first family, and the
/// addresses of the other one follow in case that it cannot be reached.
fn ways(known: &[SocketAddr]) -> impl Iterator<Item = Vec<SocketAddr>> {
    let (four, six): (Vec<_>, Vec<_>) = known.iter().partition(|address| address.is_ipv4());
    let (own, other) = match four.is_empty() {
        true => (six, four),
        false => (four, six),
    };
    own.into_iter().map(move |address: SocketAddr| {
        let others = other.iter().copied();
        std::iter::once(address).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    //! The servers of a name.

    use std::net::SocketAddr;

    use super::ways;

    #[test]
    fn each_address_is_a_server_and_the_other_family_is_a_way_to_it() {
        let parse = |text: &&str| text.parse::<SocketAddr>().unwrap();
        let all = |texts: &[&str]| -> Vec<Vec<String>> {
            let known: Vec<_> = texts.iter().map(parse).collect();
            let texts = |way: Vec<SocketAddr>| way.iter().map(ToString::to_string).collect();
            ways(&known).map(texts).collect()
        };
        assert_eq!(
            all(&["10.0.0.1:80", "10.0.0.2:80"]),
            [["10.0.0.1:80"], ["10.0.0.2:80"]]
        );
        assert_eq!(
            all(&["127.0.0.1:80", "[::1]:80"]),
            [["127.0.0.1:80", "[::1]:80"]]
        );
        assert_eq!(all(&["[::1]:80"]), [["[::1]:80"]]);
    }
}
