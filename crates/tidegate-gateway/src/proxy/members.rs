//! The servers of an upstream at one moment: one for each address.
//!
//! A name that has several addresses is several servers. When its addresses change, the upstream gets
//! new members; those that stay keep their connections and their requests in flight. Requests that
//! have begun hold the members with which they began.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::http::client::{ExchangeHandler, Upstream};

use super::target::{calls, target};
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

/// A server. `H` is the handler of its responses.
struct Member<H: ExchangeHandler> {
    setting: types::Server,
    /// The addresses to connect to, the best one first. Empty if the setting says where to connect.
    addresses: Vec<SocketAddr>,
    /// The setting as operators see it.
    base: Arc<str>,
    /// The address as operators see it.
    label: Arc<str>,
    target: Upstream<H>,
    /// Dropping the last one ends the checks.
    checker: Option<Arc<Checker>>,
}

impl<H: ExchangeHandler> Clone for Member<H> {
    fn clone(&self) -> Self {
        Self {
            setting: self.setting.clone(),
            addresses: self.addresses.clone(),
            base: Arc::clone(&self.base),
            label: Arc::clone(&self.label),
            target: self.target.clone(),
            checker: self.checker.clone(),
        }
    }
}

/// What members are made of.
pub(super) struct Recipe<'a> {
    pub(super) upstream: &'a str,
    pub(super) config: &'a types::Upstream,
    /// The settings as operators see them.
    pub(super) labels: &'a [Arc<str>],
    /// With TLS.
    pub(super) trust: Option<&'a Trust>,
    pub(super) parts: &'a Parts,
}

/// The members before, and what of them stays.
pub(super) struct Before<'a, H: ExchangeHandler> {
    pub(super) members: &'a Members<H>,
    /// The largest number in flight is the same: those in flight still count.
    pub(super) same_limit: bool,
    /// The connections are made in the same way.
    pub(super) same_connections: bool,
    pub(super) same_checks: bool,
}

impl<H: ExchangeHandler> Members<H> {
    /// Makes the members for the addresses that each setting stands for. `None` means that a setting
    /// says where to connect. A server that was there before stays, and a drained one stays drained.
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
                None => places.push((index, Vec::new())),
                Some(known) => places.extend(ways(known).map(|way| (index, way))),
            }
        }
        let count = places.len();
        let mut members = Self {
            list: Vec::new(),
            states: Vec::new(),
        };
        for (number, (index, addresses)) in places.into_iter().enumerate() {
            let (member, state) = recipe.member(index, addresses, (number, count), before)?;
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

    /// Ends the health checks of servers that have none any more. Without any, a server is up.
    pub(super) fn end_checks(&self) {
        for (member, state) in self.list.iter().zip(&self.states) {
            if member.checker.is_none() {
                state.set_checker(0);
                state.set_up(true);
            }
        }
    }

    fn find(&self, setting: &types::Server, addresses: &[SocketAddr]) -> Option<usize> {
        let own = |member: &Member<H>| member.setting == *setting && member.addresses == addresses;
        self.list.iter().position(own)
    }

    /// Returns the connections to a server.
    pub(super) fn target(&self, server: usize) -> &Upstream<H> {
        &self.list[server].target
    }

    /// Returns where a server is.
    pub(super) fn place(&self, server: usize) -> (&Address, &[SocketAddr]) {
        let member = &self.list[server];
        (&member.setting.at, &member.addresses)
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
            if *member.label == *name || *member.base == *name {
                state.set_draining(draining);
                found = true;
            }
        }
        found
    }

    /// Returns `true` if an operator drains this server, or all servers of its setting.
    fn drains(&self, setting: &types::Server, label: &str) -> bool {
        let all = self.list.iter().zip(&self.states);
        let mut own = all
            .filter(|(member, _)| member.setting.at == setting.at)
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
            weight: member.setting.weight,
            in_flight: state.in_flight(),
            calls: state.calls(),
            is_up: state.is_up(),
            is_draining: state.is_draining(),
        })
        .collect()
    }
}

impl Recipe<'_> {
    /// Makes a member, or takes over that of before.
    fn member<H: ExchangeHandler>(
        &self,
        index: usize,
        addresses: Vec<SocketAddr>,
        place: (usize, usize),
        before: Option<&Before<'_, H>>,
    ) -> Result<(Member<H>, ServerState), String> {
        let setting = &self.config.servers[index];
        let base = Arc::clone(&self.labels[index]);
        let label = match addresses.first() {
            Some(address) => Arc::from(format!("{base}@{}", address.ip())),
            None => Arc::clone(&base),
        };
        let kept = before.and_then(|before| {
            let at = before.members.find(setting, &addresses)?;
            Some((before, at))
        });
        let state = match kept.filter(|(before, _)| before.same_limit) {
            Some((before, at)) => before.members.states[at].clone(),
            None => {
                let most = self.config.max_in_flight.map(|most| most.0);
                let state = ServerState::new(setting.weight, most);
                let drains = before.is_some_and(|b| b.members.drains(setting, &label));
                state.set_draining(drains);
                state
            }
        };
        let kept = kept.filter(|(before, _)| before.same_limit && before.same_connections);
        let mut member = match kept {
            Some((before, at)) => Member {
                base,
                label,
                ..before.members.list[at].clone()
            },
            None => {
                let (at, group) = ((&setting.at, &*addresses), &self.parts.group);
                Member {
                    setting: setting.clone(),
                    target: target(at, self.config, self.trust, group)?,
                    addresses,
                    base,
                    label,
                    checker: None,
                }
            }
        };
        if kept.is_none_or(|(before, _)| !before.same_checks) {
            member.checker = self.check(&member, &state, place);
        }
        Ok((member, state))
    }

    /// Makes the health checks of a server.
    fn check<H: ExchangeHandler>(
        &self,
        member: &Member<H>,
        state: &ServerState,
        place: (usize, usize),
    ) -> Option<Arc<Checker>> {
        let health = self.config.health.as_ref()?;
        let (at, group) = (&member.setting.at, &self.parts.group);
        let (client, url) = calls((at, &member.addresses), self.config, self.trust, group);
        let checked = Checked {
            upstream: self.upstream.to_owned(),
            at: at.clone(),
            addresses: member.addresses.clone(),
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
