//! The connections to a server. `H` is the handler of its responses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate::http::client::{Client, ExchangeHandler, Upstream};
use tidegate::net::NetGroup;
use tidegate::promise::Completion;
use tidegate_http::client::ClientBuilder;

use super::addresses::Addresses;
use crate::config::Address;
use crate::config::types;
use crate::tls::Trust;

/// The most connections to a server. Requests in flight have limits of their own, so that none waits
/// for a connection of another loop.
const MOST_CONNECTIONS: usize = 1 << 20;
/// How long a server may be silent. The time of a route is usually shorter.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);

/// Where a server is: its setting, and the addresses of its name.
pub(super) type Place<'a> = (&'a Address, &'a Addresses);

/// Returns the connections to a server. `trust` is there if the upstream has TLS.
///
/// # Errors
///
/// What is wrong with the address.
pub(super) fn target<H: ExchangeHandler>(
    place: Place<'_>,
    config: &types::Upstream,
    trust: Option<&Trust>,
    group: &NetGroup,
) -> Result<Upstream<H>, String> {
    let (client, url) = calls(place, config, trust, group);
    let client = client
        .max_connections(MOST_CONNECTIONS)
        .head_timeout(LONGEST_SILENCE)
        .body_timeout(LONGEST_SILENCE);
    let upstream = client.build().upstream(&url);
    upstream.map_err(|why| format!("a server cannot be used: {why}"))
}

/// Returns a client that makes connections to a server, and the URL of the server.
pub(super) fn calls(
    (at, addresses): Place<'_>,
    config: &types::Upstream,
    trust: Option<&Trust>,
    group: &NetGroup,
) -> (ClientBuilder, String) {
    let mut client = Client::builder(group)
        .connect_timeout(config.connect_timeout)
        // The first lookup of a name ends itself after `connect_timeout`.
        .resolve_timeout(Duration::ZERO)
        .idle(config.idle);
    if let Some(find) = addresses.resolver() {
        client = client.resolver(move |_, _| find());
    }
    let mut name = match at {
        Address::Tcp { .. } => at.to_string(),
        Address::Unix(path) => {
            client = client.unix_socket(path.clone());
            "localhost".to_owned()
        }
    };
    let Some(trust) = trust else {
        return (client, format!("http://{name}"));
    };
    let tls = trust.client.clone();
    client = client.tls(tls.handshake_timeout(config.connect_timeout));
    if let Some(other) = config.tls.as_ref().and_then(|tls| tls.name.as_ref()) {
        (client, name) = called(client, at, &other.0);
    }
    (client, format!("https://{name}"))
}

/// Makes connections to `at` with `name` as the name in the certificate. Returns the host and port of
/// the URL.
fn called(client: ClientBuilder, at: &Address, name: &str) -> (ClientBuilder, String) {
    let Address::Tcp { host, port } = at else {
        return (client, name.to_owned());
    };
    let url = format!("{name}:{port}");
    let Ok(ip) = host.parse::<IpAddr>() else {
        return (client, url);
    };
    let address = SocketAddr::from((ip, *port));
    let to_address = client.resolver(move |_, _| Completion::succeeded(vec![address]));
    (to_address, url)
}
