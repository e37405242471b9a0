//! The servers of an upstream: which one takes a request, and the connections to it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::http::client::{Client, Upstream};
use tidegate::net::NetGroup;
use tidegate::promise::Completion;
use tidegate_http::client::ClientBuilder;

use super::answer::Answer;
use crate::admin::{ServerReport, UpstreamReport};
use crate::balance::{Lease, Picker, ServerState, Strategy};
use crate::config::types;
use crate::config::{Address, Balance};
use crate::health::{Checked, Checker};
use crate::reports::Reports;
use crate::tls::trusted;

/// The most connections to a server. Requests in flight have limits of their own, so that none waits
/// for a connection of another loop.
const MOST_CONNECTIONS: usize = 1 << 20;
/// How long a server may be silent. The time of a route is usually shorter.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);

/// An upstream.
pub(super) struct UpstreamState {
    pub(super) name: String,
    config: types::Upstream,
    /// The addresses of the servers as operators see them.
    labels: Vec<Arc<str>>,
    servers: Vec<ServerState>,
    targets: Vec<Upstream<Answer>>,
    /// One for each loop. Only that loop uses the lock.
    pickers: Vec<Mutex<Picker>>,
    /// Dropping them ends the health checks.
    _checkers: Vec<Arc<Checker>>,
}

impl UpstreamState {
    /// Makes an upstream. One that has not changed is the same as before, and servers that have not
    /// changed keep their connections and their requests in flight.
    ///
    /// # Errors
    ///
    /// What is wrong with a file or an address.
    pub(super) fn new(
        name: &str,
        config: &types::Upstream,
        labels: Vec<Arc<str>>,
        before: Option<&Arc<Self>>,
        (group, reports): (&NetGroup, &Reports),
    ) -> Result<Arc<Self>, String> {
        if let Some(before) = before
            && before.config == *config
            && before.labels == labels
        {
            return Ok(Arc::clone(before));
        }
        let mut upstream = Self {
            name: name.to_owned(),
            config: config.clone(),
            labels,
            servers: Vec::new(),
            targets: Vec::new(),
            pickers: pickers(config.balance, group.loops().len()),
            _checkers: Vec::new(),
        };
        for server in &config.servers {
            let kept = before.and_then(|before| before.same_server(config, server));
            let (state, target) = match kept {
                Some(kept) => kept,
                None => {
                    let most = config.max_in_flight.map(|most| most.0);
                    let target = target(&server.at, config, group)?;
                    let state = ServerState::new(server.weight, most);
                    let drained = before.is_some_and(|before| before.drains(&server.at));
                    state.set_draining(drained);
                    (state, target)
                }
            };
            upstream.servers.push(state);
            upstream.targets.push(target);
        }
        upstream._checkers = upstream.start_checks(group, reports)?;
        Ok(Arc::new(upstream))
    }

    /// Starts the health checks. Without any, each server is up.
    fn start_checks(
        &self,
        group: &NetGroup,
        reports: &Reports,
    ) -> Result<Vec<Arc<Checker>>, String> {
        let (config, mut checkers) = (&self.config, Vec::new());
        let all = config.servers.iter().zip(&self.servers).enumerate();
        for (index, (server, state)) in all {
            let Some(health) = &config.health else {
                state.set_up(true);
                continue;
            };
            let (client, url) = calls(&server.at, config, group)?;
            let checked = Checked {
                upstream: self.name.clone(),
                at: server.at.clone(),
                label: Arc::clone(&self.labels[index]),
                state: state.clone(),
                client: client.max_connections(1).build(),
                url,
                reports: reports.clone(),
            };
            let place = (index, config.servers.len());
            checkers.push(Checker::start(checked, health, group, place));
        }
        Ok(checkers)
    }

    /// Returns the server of this upstream that `server` of a new configuration is, if nothing of it
    /// has changed.
    fn same_server(
        &self,
        config: &types::Upstream,
        server: &types::Server,
    ) -> Option<(ServerState, Upstream<Answer>)> {
        let own = &self.config;
        let same = own.tls == config.tls
            && own.connect_timeout == config.connect_timeout
            && own.idle == config.idle
            && own.max_in_flight == config.max_in_flight;
        let at = own.servers.iter().position(|one| one == server);
        let at = at.filter(|_| same)?;
        Some((self.servers[at].clone(), self.targets[at].clone()))
    }

    /// Returns `true` if an operator drains the server with this address.
    fn drains(&self, at: &Address) -> bool {
        let servers = self.config.servers.iter().zip(&self.servers);
        let mut own = servers.filter(|(server, _)| server.at == *at);
        own.any(|(_, state)| state.is_draining())
    }

    /// Drains the servers with this label, or ends their drain. Returns `false` if there is none.
    pub(super) fn drain(&self, label: &str, draining: bool) -> bool {
        let all = self.labels.iter().zip(&self.servers);
        let own: Vec<_> = all.filter(|(own, _)| ***own == *label).collect();
        for (_, state) in &own {
            state.set_draining(draining);
        }
        !own.is_empty()
    }

    /// Returns the upstream as operators see it.
    pub(super) fn report(&self) -> UpstreamReport {
        let all = self.labels.iter().zip(&self.servers);
        let servers = all.zip(&self.config.servers);
        let server =
            |((label, state), config): ((&Arc<str>, &ServerState), &types::Server)| ServerReport {
                address: label.to_string(),
                weight: config.weight,
                in_flight: state.in_flight(),
                is_up: state.is_up(),
                is_draining: state.is_draining(),
            };
        UpstreamReport {
            name: self.name.clone(),
            servers: servers.map(server).collect(),
        }
    }

    /// Chooses a server and reserves a place, on loop `home`. `avoid` is the server of an earlier
    /// attempt.
    pub(super) fn pick(&self, home: usize, avoid: Option<usize>) -> Option<Lease> {
        let picker = self.pickers.get(home)?;
        let mut picker = picker.lock().unwrap_or_else(PoisonError::into_inner);
        picker.pick(&self.servers, avoid)
    }

    /// Returns the address of a server as operators see it.
    pub(super) fn label(&self, server: usize) -> &str {
        &self.labels[server]
    }

    /// Returns the connections to a server.
    pub(super) fn target(&self, lease: &Lease) -> &Upstream<Answer> {
        &self.targets[lease.server]
    }
}

impl fmt::Debug for UpstreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamState")
            .field("name", &self.name)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

fn pickers(balance: Balance, loops: usize) -> Vec<Mutex<Picker>> {
    let strategy = match balance {
        Balance::RoundRobin => Strategy::RoundRobin,
        Balance::LeastInFlight => Strategy::LeastInFlight,
        Balance::Random => Strategy::Random,
    };
    let picker = |home: usize| Mutex::new(Picker::new(strategy, home as u64 + 1));
    (0..loops).map(picker).collect()
}

/// Returns the connections to a server.
fn target(
    at: &Address,
    config: &types::Upstream,
    group: &NetGroup,
) -> Result<Upstream<Answer>, String> {
    let (client, url) = calls(at, config, group)?;
    let client = client
        .max_connections(MOST_CONNECTIONS)
        .head_timeout(LONGEST_SILENCE)
        .body_timeout(LONGEST_SILENCE);
    let upstream = client.build().upstream(&url);
    upstream.map_err(|why| format!("the server {at} cannot be used: {why}"))
}

/// Returns a client that makes connections to a server, and the URL of the server.
fn calls(
    at: &Address,
    config: &types::Upstream,
    group: &NetGroup,
) -> Result<(ClientBuilder, String), String> {
    let mut client = Client::builder(group)
        .connect_timeout(config.connect_timeout)
        .idle(config.idle);
    let mut name = match at {
        Address::Tcp { .. } => at.to_string(),
        Address::Unix(path) => {
            client = client.unix_socket(path.clone());
            "localhost".to_owned()
        }
    };
    let scheme = match &config.tls {
        None => "http",
        Some(tls) => {
            client = client.tls(trusted(tls)?);
            if let Some(other) = &tls.name {
                (client, name) = called(client, at, other)?;
            }
            "https"
        }
    };
    Ok((client, format!("{scheme}://{name}")))
}

/// Makes connections to `at` with `name` as the name in the certificate. Returns the host and port of
/// the URL.
fn called(
    client: ClientBuilder,
    at: &Address,
    name: &str,
) -> Result<(ClientBuilder, String), String> {
    let Address::Tcp { host, port } = at else {
        return Ok((client, name.to_owned()));
    };
    let url = format!("{name}:{port}");
    if host == name {
        return Ok((client, url));
    }
    let Ok(ip) = host.parse::<IpAddr>() else {
        return Err(format!(
            "the server {at} has a name of its own: leave `tls.name` out, or give its address"
        ));
    };
    let address = SocketAddr::from((ip, *port));
    let resolve = move |_: &str, _: u16| Completion::succeeded(vec![address]);
    Ok((client.resolver(resolve), url))
}
