//! Checks of listeners: tokens, certificates, trust, limits, addresses that are used twice.

use std::collections::HashMap;
use std::net::IpAddr;

use super::checks::Checks;
use crate::config::address::Address;
use crate::config::load::Named;
use crate::config::mistake::Mistake;
use crate::config::source::Span;
use crate::config::types::{Admin, Listener};
use crate::config::values::ClientCertificate;

/// The largest head and request line, in bytes: the HTTP server counts them with 16 bits.
const LARGEST_HEAD: u64 = u16::MAX as u64;
/// The largest number of fields that the HTTP server reads.
const MOST_FIELDS: u32 = 100;

impl Checks<'_> {
    pub(super) fn listeners(&mut self) {
        let config = self.config;
        for listener in &config.listeners {
            self.tls(listener);
            self.limits(listener);
            let has_no_peer = listener.value.trust.is_empty();
            let has_no_peer = has_no_peer && !self.is_wrong(listener, &["trust"]);
            if listener.value.proxy_protocol && has_no_peer {
                let what = "no peer may send the PROXY protocol: `trust` is empty";
                self.add(listener, "proxy_protocol", what, "peers in `trust`");
            }
        }
        if let Some(admin) = &config.admin {
            self.admin(admin);
        }
        self.same_address();
    }

    fn tls(&mut self, listener: &Named<Listener>) {
        let Some(tls) = &listener.value.tls else {
            return;
        };
        if tls.certificates.is_empty() {
            let expected = "at least one `{ cert = \"…\", key = \"…\" }`";
            self.add(listener, "tls.certificates", "there is none", expected);
        }
        let has_roots =
            tls.client_roots.is_some() || self.is_wrong(listener, &["tls.client_roots"]);
        if tls.client != ClientCertificate::None && !has_roots {
            let what = "no certificate of a client can be checked: there are no roots";
            self.add(listener, "tls.client", what, "a file in `client_roots`");
        }
    }

    fn limits(&mut self, listener: &Named<Listener>) {
        let limits = &listener.value.limits;
        let sizes = [
            ("limits.request_line", limits.request_line),
            ("limits.head", limits.head),
        ];
        for (key, size) in sizes {
            if size.0 == 0 || size.0 > LARGEST_HEAD {
                let expected = format!("1B to {LARGEST_HEAD}B");
                self.add(listener, key, "no head can have this limit", &expected);
            }
        }
        if limits.fields.0 > MOST_FIELDS {
            let expected = format!("1 to {MOST_FIELDS}");
            let what = "no head has so many fields";
            self.add(listener, "limits.fields", what, &expected);
        }
        if listener.value.proxy_protocol && limits.connections_per_client.is_some() {
            let what = "the connections of all clients come from the proxies in front";
            let expected = "`limits.connections`, or no `proxy_protocol`";
            let key = "limits.connections_per_client";
            self.add(listener, key, what, expected);
        }
        if limits.memory.is_some_and(|memory| memory.0 == 0) {
            let what = "no response could be sent";
            self.add(listener, "limits.memory", what, "1B or more");
        }
        let times = [
            ("limits.head_time", limits.head_time),
            ("limits.body_time", limits.body_time),
            ("limits.send_time", limits.send_time),
            ("limits.idle", limits.idle),
        ];
        self.positive(listener, &times);
    }

    fn admin(&mut self, admin: &Named<Admin>) {
        let has_token = admin.value.token.is_some() || admin.value.read_token.is_some();
        let has_token = has_token || self.is_wrong(admin, &["token", "read_token"]);
        if !admin.value.at.is_local() && !has_token {
            let what = "other machines can reach the address, and there is no token";
            let expected = "a loopback address, or `token = \"${TOKEN}\"`";
            self.add(admin, "at", what, expected);
        }
    }

    /// Two listeners have different addresses, and none includes that of another one. Port 0 stands for any
    /// free port.
    fn same_address(&mut self) {
        let config = self.config;
        let listeners = config.listeners.iter();
        let admin = config
            .admin
            .iter()
            .map(|a| (a.name.as_str(), a.at, &a.value.at));
        let all: Vec<(&str, Span, &Address)> = listeners
            .map(|l| (l.name.as_str(), l.at, &l.value.at))
            .chain(admin)
            .collect();
        let mut earlier = Earlier::default();
        for (index, (name, at, address)) in all.iter().enumerate() {
            let Some(other) = earlier.find_then_add(address, index) else {
                continue;
            };
            let other = &all[other];
            let place = |name: &str, at: Span| self.place(&format!("listen.{name}.at"), at);
            let what = match other.2 == *address {
                true => format!("the address is that of `listen.{}`", other.0),
                false => format!(
                    "one of the address and that of `listen.{}` includes the other",
                    other.0
                ),
            };
            let mistake = Mistake::new(place(name, *at), format!("listen.{name}.at"), what);
            let related = place(other.0, other.1);
            self.mistakes.add(
                mistake
                    .expected("another address")
                    .related(related, "the other listener"),
            );
        }
    }
}

/// The positions of the first listeners with an address, without a search through all of them.
#[derive(Default)]
struct Earlier<'a> {
    same: HashMap<&'a Address, usize>,
    /// Those that have a number of a family, and a port.
    numbers: HashMap<(bool, u16), usize>,
    /// Those that stand for all addresses of the machine.
    whole: HashMap<(bool, u16), usize>,
}

impl<'a> Earlier<'a> {
    /// Returns the first listener whose address is this one, or includes it or is included, and adds this
    /// one. Whether `[::]` includes IPv4 depends on the system, so it counts for IPv6 only. Other systems
    /// than Linux allow both.
    fn find_then_add(&mut self, address: &'a Address, index: usize) -> Option<usize> {
        if matches!(address, Address::Tcp { port: 0, .. }) {
            return None;
        }
        let mut found = self.same.get(address).copied();
        self.same.entry(address).or_insert(index);
        if cfg!(target_os = "linux")
            && let Address::Tcp { host, port } = address
            && let Ok(number) = host.parse::<IpAddr>()
        {
            let key = (number.is_ipv4(), *port);
            let others = match number.is_unspecified() {
                true => &self.numbers,
                false => &self.whole,
            };
            found = found.into_iter().chain(others.get(&key).copied()).min();
            self.numbers.entry(key).or_insert(index);
            if number.is_unspecified() {
                self.whole.entry(key).or_insert(index);
            }
        }
        found
    }
}
