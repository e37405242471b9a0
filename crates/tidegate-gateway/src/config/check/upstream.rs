//! Checks of upstreams: servers, health checks, TLS.

use std::net::Ipv6Addr;

use super::checks::{Checks, Kind as _};
use crate::config::address::Address;
use crate::config::load::Named;
use crate::config::types::{Upstream, UpstreamTls};

impl Checks<'_> {
    pub(super) fn upstream(&mut self, upstream: &Named<Upstream>) {
        let value = &upstream.value;
        if value.servers.is_empty() {
            let expected = "at least one address, such as `\"10.0.0.1:80\"`";
            self.add(upstream, "servers", "there is none", expected);
        } else if value.servers.iter().all(|server| server.weight == 0) {
            let what = "no server gets a request: each has weight 0";
            self.add(upstream, "servers", what, "a positive weight");
        }
        let times = [
            ("connect_timeout", value.connect_timeout),
            ("resolve_every", value.resolve_every),
        ];
        self.positive(upstream, &times);
        if let Some(health) = &value.health {
            let times = [
                ("health.every", health.every),
                ("health.timeout", health.timeout),
            ];
            self.positive(upstream, &times);
        }
        if let Some(health) = &value.health
            && health.timeout > health.every
            && !self.is_wrong(upstream, &["health"])
        {
            let what = "a check takes longer than the time between two checks";
            let path = |key: &str| Upstream::path(upstream, &format!("health.{key}"));
            // At the one of the two that is in the file.
            if self.is_default(&path("timeout")) {
                let timeout = self.shown(&path("timeout"));
                let expected = format!("at least {timeout}, which is `timeout`");
                self.add(upstream, "health.every", what, &expected);
            } else {
                let every = self.shown(&path("every"));
                let expected = format!("at most {every}, which is `every`");
                self.add(upstream, "health.timeout", what, &expected);
            }
        }
        for (index, server) in value.servers.iter().enumerate() {
            if matches!(server.at, Address::Tcp { port: 0, .. }) {
                let (key, expected) = (format!("servers[{index}].at"), "a port from 1 to 65535");
                let what = "no server can be reached at port 0";
                self.add(upstream, &key, what, expected);
            }
        }
        if let Some(tls) = &value.tls {
            self.tls_to_servers(upstream, tls);
        }
    }

    fn tls_to_servers(&mut self, upstream: &Named<Upstream>, tls: &UpstreamTls) {
        if tls.name.as_ref().is_some_and(|name| !is_host(&name.0)) {
            let what = "no certificate can have this name";
            let expected = "a host in ASCII, such as `\"orders.example\"`";
            self.add(upstream, "tls.name", what, expected);
        }
        let (key, what, expected) = match (&tls.cert, &tls.key, &tls.roots) {
            (Some(_), Some(_), None) => (
                "tls.cert",
                "`cert` and `key` need `roots`, too",
                "`roots` beside them",
            ),
            (Some(_), None, _) => ("tls.cert", TOGETHER, "both `cert` and `key`"),
            (None, Some(_), _) => ("tls.key", TOGETHER, "both `cert` and `key`"),
            _ => return,
        };
        if self.is_wrong(upstream, &["tls"]) {
            return;
        }
        self.add(upstream, key, what, expected);
    }
}

const TOGETHER: &str = "a certificate and its key belong together";

/// Returns `true` if a URL can have the host.
fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match inner {
        Some(number) => number.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !host.is_empty() && host.bytes().all(is_part)
        }
    }
}
