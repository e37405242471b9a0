//! Checks of texts that become parts of a head: what is not allowed there must not get there.

use super::checks::Checks;
use super::target::{EXPECTED, is_target};
use crate::config::fields::is_value;
use crate::config::load::Named;
use crate::config::types::{Rewrite, Route, Upstream};
use crate::route::{PathPattern, Segment};

/// The fields that describe the connection or the body, which the gateway sets itself.
const FIXED: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

impl Checks<'_> {
    pub(super) fn upstream_texts(&mut self, upstream: &Named<Upstream>) {
        let Some(health) = &upstream.value.health else {
            return;
        };
        let is_path = health.path.starts_with('/') && is_visible(&health.path);
        if !is_path || health.path.contains('#') {
            let what = "no request can have this path";
            let expected = "a path that begins with `/`, without spaces";
            self.add(upstream, "health.path", what, expected);
        }
    }

    pub(super) fn route_texts(&mut self, route: &Named<Route>) {
        let value = &route.value;
        let types = [
            (
                "fallback.content_type",
                value.fallback.as_ref().map(|f| &f.content_type),
            ),
            (
                "respond.content_type",
                value.respond.as_ref().map(|r| &r.content_type),
            ),
        ];
        for (key, text) in types {
            if text.is_some_and(|text| !is_value(text)) {
                let what = "no field can have this value";
                self.add(route, key, what, "visible characters, such as `text/plain`");
            }
        }
        if let Some(redirect) = &value.redirect {
            if !(300..=399).contains(&redirect.status.0) {
                let what = "a client does not follow a redirect with this status";
                self.add(route, "redirect.status", what, "301, 302, 303, 307 or 308");
            }
            let known = ["host", "path", "query"];
            if let Err(expected) = template(&redirect.to, &known) {
                let what = "the target cannot be made";
                self.add(route, "redirect.to", what, &expected);
            } else if !is_target(&redirect.to) {
                let what = "the target is neither a URL nor an absolute path";
                self.add(route, "redirect.to", what, EXPECTED);
            }
        }
        if let Some(rewrite) = &value.rewrite {
            self.rewrite(route, rewrite);
        }
    }

    fn rewrite(&mut self, route: &Named<Route>, rewrite: &Rewrite) {
        if let Some(path) = &rewrite.path
            && !self.is_wrong(route, &["path"])
        {
            let known = names(&route.value.path);
            let made = template(path, &known);
            let expected = match made {
                Err(expected) => Some(expected),
                Ok(()) if !path.starts_with('/') || path.contains(['?', '#']) => {
                    Some("a path that begins with `/`, without a query".to_owned())
                }
                Ok(()) => None,
            };
            if let Some(expected) = expected {
                self.add(route, "rewrite.path", "the path cannot be made", &expected);
            }
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if rewrite
            .host
            .as_ref()
            .is_some_and(|h| h.is_empty() || !h.chars().all(is_part))
        {
            let what = "no request can have this host";
            self.add(
                route,
                "rewrite.host",
                what,
                "a host, such as `\"a.example\"`",
            );
        }
        let fields = [
            ("rewrite.request", &rewrite.request),
            ("rewrite.response", &rewrite.response),
        ];
        for (key, fields) in fields {
            if let Some(name) = fields.keys().find(|name| FIXED.contains(&name.as_str())) {
                let what = format!("the gateway sets the field `{name}` itself");
                self.add(route, key, &what, "other fields; `rewrite.host` for `host`");
            }
        }
    }
}

/// Returns the names that a new path may use.
fn names(path: &PathPattern) -> Vec<&str> {
    let mut names: Vec<&str> = path.segments().iter().filter_map(Segment::name).collect();
    if path.is_open() {
        names.push("rest");
    }
    names
}

/// Checks a text with `{name}`s. Returns what is expected if one is not known.
fn template(text: &str, known: &[&str]) -> Result<(), String> {
    if text.is_empty() || !is_visible(text) {
        return Err("visible characters, without spaces".to_owned());
    }
    let names = match known {
        [] => "no `{name}`".to_owned(),
        known => format!("only {{{}}}", known.join("}, {")),
    };
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let inner = rest[at..]
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'));
        match inner {
            Some((name, after)) if known.contains(&name) => rest = after,
            _ => return Err(names),
        }
    }
    Ok(())
}

/// Returns `true` if a text has only visible ASCII characters.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}
