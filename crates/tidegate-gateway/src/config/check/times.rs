//! Checks of times: a timeout that its parts exceed, retries that cannot fit.

use std::time::Duration;

use super::checks::{Checks, Kind as _};
use crate::config::load::Named;
use crate::config::mistake::Mistake;
use crate::config::notation::show_duration;
use crate::config::types::{Retry, Route, Upstream};

/// The shortest window of a breaker: twenty parts of 1 ms.
const SHORTEST_WINDOW: Duration = Duration::from_millis(20);

impl Checks<'_> {
    /// A timeout is longer than each of its parts.
    pub(super) fn times(&mut self, route: &Named<Route>) {
        if let Some(breaker) = &route.value.breaker {
            let times = [
                ("breaker.window", breaker.window),
                ("breaker.sleep", breaker.sleep),
            ];
            self.positive(route, &times);
            if !breaker.window.is_zero() && breaker.window < SHORTEST_WINDOW {
                let what = "the window is too short: a part of it is at least 1 ms";
                self.add(route, "breaker.window", what, "at least `\"20ms\"`");
            }
        }
        let retry = route.value.retry.as_ref();
        if let Some(time) = retry.and_then(|retry| retry.attempt_timeout) {
            self.positive(route, &[("retry.attempt_timeout", time)]);
        }
        if let Some(tunnel) = &route.value.tunnel {
            self.positive(route, &[("tunnel.idle", tunnel.idle)]);
        }
        self.fallback(route);
        let (Some(timeout), Some(attempts)) = (route.value.timeout, route.value.attempts_time())
        else {
            return;
        };
        if timeout.is_zero() {
            self.add(
                route,
                "timeout",
                "no request is in time",
                "a positive duration",
            );
            return;
        }
        let upstream = route.value.upstream.as_deref();
        let upstream = upstream.and_then(|name| self.config.upstream(name));
        let breaker = route.value.breaker.as_ref();
        let parts = [
            (
                "queue.wait",
                route.value.queue.as_ref().map(|queue| queue.wait),
            ),
            ("breaker.slow", breaker.and_then(|breaker| breaker.slow)),
            (
                "retry.attempt_timeout",
                route
                    .value
                    .retry
                    .as_ref()
                    .and_then(|retry| retry.attempt_timeout),
            ),
        ];
        for (key, part) in parts {
            if part.is_some_and(|part| part >= attempts) {
                self.too_long(route, &format!("route.{}.{key}", route.name));
            }
        }
        if let Some(upstream) = upstream
            && upstream.value.connect_timeout >= attempts
        {
            let path = Upstream::path(upstream, "connect_timeout");
            self.too_long(route, &path);
        }
    }

    /// The time of a fallback is a part of the timeout, and leaves some of it. Only that of another
    /// upstream has a time and a limit.
    fn fallback(&mut self, route: &Named<Route>) {
        let Some(fallback) = &route.value.fallback else {
            return;
        };
        if self.is_wrong(route, &["fallback", "timeout"]) {
            return;
        }
        if fallback.upstream.is_none() && fallback.limit.is_some() {
            self.add(
                route,
                "fallback.limit",
                "a fixed response needs no limit",
                "`upstream`, or no `limit` of the fallback",
            );
        }
        let Some(time) = fallback.timeout else { return };
        let (what, expected) = match (&fallback.upstream, route.value.timeout) {
            (None, _) => (
                "a fixed response has no time of its own",
                "`upstream`, or no `timeout` of the fallback",
            ),
            (_, None) => (
                "the route has no timeout, of which this is a part",
                "`timeout` of the route, or none of the fallback",
            ),
            (_, Some(timeout)) if time >= timeout && !timeout.is_zero() => {
                let part = Route::path(route, "fallback.timeout");
                return self.too_long(route, &part);
            }
            _ => return self.positive(route, &[("fallback.timeout", time)]),
        };
        self.add(route, "fallback.timeout", what, expected);
    }

    /// Reports a part that is at least as long as the timeout. A default that is too long is not
    /// a mistake: the timeout ends it.
    pub(super) fn too_long(&mut self, route: &Named<Route>, part: &str) {
        let is_wrong = self.is_wrong(route, &["timeout", "fallback"]);
        if self.is_default(part) || is_wrong || self.is_named_wrong(part) {
            return;
        }
        let path = Route::path(route, "timeout");
        // The difference would tell the value of a variable.
        let without = match route.value.fallback_time() {
            Some(_) if !part.ends_with("fallback.timeout") => ", without the part of the fallback,",
            _ => "",
        };
        let what = format!(
            "the timeout of {}{without} is not longer than `{part}` of {}, which is a part of it",
            self.shown(&path),
            self.shown(part)
        );
        let at = self.place(&path, route.at);
        let related = self.place(part, route.at);
        self.mistakes
            .add(Mistake::new(at, path, what).related(related, "the part"));
    }

    /// All attempts and the pauses between them fit into the timeout.
    pub(super) fn retries(&mut self, route: &Named<Route>, retry: &Retry, timeout: Duration) {
        if self.is_wrong(route, &["retry", "timeout", "fallback"]) {
            return;
        }
        let pauses = retry.pause.saturating_mul(retry.times.0);
        let attempts = retry.attempt_timeout.unwrap_or_default();
        let attempts = attempts.saturating_mul(retry.times.0.saturating_add(1));
        let needed = pauses.saturating_add(attempts);
        let single = retry.attempt_timeout.unwrap_or_default();
        let fits = needed < timeout || (needed == timeout && !attempts.is_zero());
        if fits || needed.is_zero() || single >= timeout {
            return;
        }
        let path = Route::path(route, "retry.times");
        let without = match route.value.fallback_time() {
            Some(_) => " without the part of the fallback",
            None => "",
        };
        let what = format!(
            "the retries do not fit into the timeout{without}: they may take {}, the timeout is {}",
            show_duration(needed),
            show_duration(timeout)
        );
        let at = self.place(&path, route.at);
        let timeout_at = self.place(&Route::path(route, "timeout"), at);
        self.mistakes.add(
            Mistake::new(at, path, what)
                .expected("fewer or shorter attempts, or a longer timeout")
                .related(timeout_at, "the timeout"),
        );
    }
}
