//! Checks of upstreams: servers, health checks, TLS.

use super::checks::Checks;
use crate::config::load::Named;
use crate::config::types::Upstream;

impl Checks<'_> {
    pub(super) fn upstream(&mut self, upstream: &Named<Upstream>) {
        let value = &upstream.value;
        if value.servers.is_empty() {
            let expected = "at least one address, such as `\"10.0.0.1:80\"`";
            self.add("upstream", upstream, "servers", "there is none", expected);
        } else if value.servers.iter().all(|server| server.weight == 0) {
            let what = "no server gets a request: each has weight 0";
            self.add("upstream", upstream, "servers", what, "a positive weight");
        }
        let times = [
            ("connect_timeout", value.connect_timeout),
            ("resolve_every", value.resolve_every),
        ];
        self.positive("upstream", upstream, &times);
        if let Some(health) = &value.health {
            let times = [
                ("health.every", health.every),
                ("health.timeout", health.timeout),
            ];
            self.positive("upstream", upstream, &times);
        }
        if let Some(health) = &value.health
            && health.timeout > health.every
        {
            let what = "a check takes longer than the time between two checks";
            let every = self.shown(&format!("upstream.{}.health.every", upstream.name));
            let expected = format!("at most {every}, which is `every`");
            self.add("upstream", upstream, "health.timeout", what, &expected);
        }
        if let Some(tls) = &value.tls
            && tls.cert.is_some() != tls.key.is_some()
        {
            let what = "a certificate and its key belong together";
            self.add(
                "upstream",
                upstream,
                "tls.cert",
                what,
                "both `cert` and `key`",
            );
        }
    }
}
