//! Checks of routes: actions, upstreams, limits, ties, routes that no request reaches.

use std::collections::BTreeSet;

use super::checks::{Checks, Kind as _};
use crate::config::load::Named;
use crate::config::mistake::Mistake;
use crate::config::types::Route;
use crate::config::values::LimitKind;
use crate::route::{PathPattern, Tie};

impl Checks<'_> {
    /// A route does exactly one thing.
    pub(super) fn action(&mut self, route: &Named<Route>) {
        let value = &route.value;
        let actions = [
            ("upstream", value.upstream.is_some()),
            ("redirect", value.redirect.is_some()),
            ("respond", value.respond.is_some()),
            ("files", value.files.is_some()),
        ];
        let chosen: Vec<&str> = actions.iter().filter(|a| a.1).map(|a| a.0).collect();
        let path = format!("route.{}", route.name);
        let what = match chosen.as_slice() {
            [_] => return,
            [] if self.is_wrong(route, &actions.map(|a| a.0)) => return,
            [] => "the route has no action".to_owned(),
            several => format!("the route has several actions: {}", several.join(", ")),
        };
        let expected = "exactly one of upstream, redirect, respond, files";
        self.mistakes
            .add(Mistake::new(route.at, path, what).expected(expected));
    }

    /// The upstreams of a route exist.
    pub(super) fn references(&mut self, route: &Named<Route>) {
        let fallback = route.value.fallback.as_ref();
        let fallback = fallback.and_then(|fallback| fallback.upstream.as_ref());
        let names = [
            ("upstream", route.value.upstream.as_ref()),
            ("fallback.upstream", fallback),
        ];
        for (key, name) in names {
            let is_there = |name: &String| {
                let path = format!("upstream.{name}");
                self.config.upstream(name).is_some() || self.is_named_wrong(&path)
            };
            let Some(name) = name.filter(|name| !is_there(name)) else {
                continue;
            };
            let path = format!("route.{}.{key}", route.name);
            let known = self.config.upstreams.iter().map(|u| u.name.as_str());
            let at = self.place(&path, route.at);
            // The name may come from a variable, so it is not quoted.
            let mistake = Mistake::new(at, path, "there is no such upstream");
            let mistake = mistake.expected("the name of an `[upstream.NAME]`");
            self.mistakes.add(mistake.nearest(name, known));
        }
    }

    /// `CONNECT` is allowed where the route names it and its tunnel allows it.
    pub(super) fn connect(&mut self, route: &Named<Route>) {
        if self.is_wrong(route, &["method", "path", "tunnel", "upstream"]) {
            return;
        }
        let value = &route.value;
        let named = value.method.iter().any(|method| method.0 == "CONNECT");
        let allowed = value.tunnel.as_ref().is_some_and(|tunnel| tunnel.connect);
        if named && !allowed {
            let what = "`CONNECT` is not allowed by the tunnel of the route";
            self.add(route, "method", what, "`tunnel = { connect = true }`");
        }
        if allowed && !named {
            let what = "the route does not take `CONNECT`";
            self.add(route, "tunnel.connect", what, "`CONNECT` in `method`");
        }
        if named && value.path != PathPattern::all() {
            let what = "a request with `CONNECT` has no path";
            self.add(route, "path", what, "no `path`, or `\"/*\"`");
        }
        if value.tunnel.is_some() && value.upstream.is_none() {
            let what = "a tunnel needs an upstream";
            self.add(route, "tunnel.max", what, "`upstream`, or no `tunnel`");
        }
    }

    pub(super) fn limit(&mut self, route: &Named<Route>) {
        let limit = &route.value.limit;
        if limit.kind != LimitKind::Adaptive || self.is_wrong(route, &["limit"]) {
            return;
        }
        let path = Route::path(route, "limit.initial");
        // A default is lowered to `max`.
        let initial = match limit.initial > limit.max && self.is_default(&path) {
            true => limit.max,
            false => limit.initial,
        };
        if limit.min > initial || initial > limit.max {
            let what = "`min`, `initial` and `max` are not in order";
            self.add(route, "limit.max", what, "`min` ≤ `initial` ≤ `max`");
        }
    }

    /// Returns `true` if it is not known which requests a route takes.
    fn has_wrong_conditions(&self, route: &Named<Route>) -> bool {
        self.is_wrong(route, &["host", "path", "method", "header"])
    }

    pub(super) fn ties(&mut self, ties: &[Tie]) {
        for tie in ties {
            let first = &self.config.routes[tie.first];
            let second = &self.config.routes[tie.second];
            if [first, second]
                .iter()
                .any(|route| self.has_wrong_conditions(route))
            {
                continue;
            }
            let what = format!(
                "the route takes the same requests as `route.{}`, and neither is more specific",
                first.name
            );
            let mistake = Mistake::new(second.at, format!("route.{}", second.name), what);
            let mistake = mistake.expected("another host, path, method or header");
            self.mistakes
                .add(mistake.related(first.at, "the other route"));
        }
    }

    /// Reports routes that no request reaches. A route with a tie is reported already.
    pub(super) fn unreachable(&mut self, ties: &[Tie]) {
        let config = self.config;
        let tied: BTreeSet<usize> = ties.iter().flat_map(|t| [t.first, t.second]).collect();
        let are_known = !config.routes.iter().any(|r| self.has_wrong_conditions(r));
        for (index, route) in config.routes.iter().enumerate() {
            if route.value.path.normal_form().is_some() {
                let what =
                    "no request has such a path: paths are normalised before they are routed";
                // The normal form may contain the value of a variable, so it is not printed.
                let expected = "a path without `.` and `..`, and without needless percent signs";
                self.add(route, "path", what, expected);
            } else if are_known && !tied.contains(&index) && config.table.is_unreachable(index) {
                let what = "no request reaches the route: more specific routes take them all";
                let path = format!("route.{}", route.name);
                self.mistakes
                    .add(Mistake::new(route.at, path, what).warning());
            }
        }
    }

    pub(super) fn unused(&mut self) {
        let mut routes = self.config.routes.iter();
        let keys = ["upstream", "fallback.upstream"];
        if routes.any(|route| self.is_wrong(route, &keys)) {
            return;
        }
        let routes = self.config.routes.iter().map(|route| &route.value);
        let used: BTreeSet<&str> = routes
            .flat_map(|route| {
                let fallback = route.fallback.as_ref().and_then(|f| f.upstream.as_deref());
                [route.upstream.as_deref(), fallback]
            })
            .flatten()
            .collect();
        for upstream in &self.config.upstreams {
            if !used.contains(upstream.name.as_str()) {
                let path = format!("upstream.{}", upstream.name);
                let what = "no route uses the upstream";
                self.mistakes
                    .add(Mistake::new(upstream.at, path, what).warning());
            }
        }
    }
}
