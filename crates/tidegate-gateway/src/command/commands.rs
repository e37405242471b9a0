//! The commands of a route: for its requests, for its tunnels, and for the upstream of its fallback.

use tidegate::isolate::{Command, ConfigError, Isolation};

use super::build::{check, configured};
use crate::config::types::{Limit, Route};
use crate::config::{Count, LimitKind};

/// The commands of a route. Tunnels and fallbacks have limits of their own: a tunnel lives long, and
/// what a route refuses must not reach another upstream without limit.
pub(crate) struct Commands {
    pub(crate) own: Command,
    pub(crate) tunnel: Option<Command>,
    pub(crate) fallback: Option<Command>,
}

impl Commands {
    /// Checks that the commands of a route can be made. Changes nothing.
    ///
    /// # Errors
    ///
    /// Which setting is not valid, and why.
    pub(crate) fn check(
        name: &str,
        route: &Route,
        isolation: &Isolation,
    ) -> Result<(), ConfigError> {
        check(name, route, isolation)?;
        let beside = [tunnel(name, route), fallback(name, route)];
        let mut beside = beside.iter().flatten();
        beside.try_for_each(|(key, route)| check(key, route, isolation))
    }

    /// Makes the commands of a route, or changes those that it had before.
    ///
    /// # Errors
    ///
    /// Which setting is not valid, and why.
    pub(crate) fn configured(
        name: &str,
        route: &Route,
        before: Option<&Self>,
        isolation: &Isolation,
    ) -> Result<Self, ConfigError> {
        let old = before.map(|before| &before.own);
        let mut made = Self {
            own: configured(name, route, old, isolation)?,
            tunnel: None,
            fallback: None,
        };
        let beside = made.add_beside(name, route, before, isolation);
        // A command that no route has would refuse the next one with its key.
        let beside = beside.inspect_err(|_| made.forget_removed(before, isolation));
        beside.map(|()| made)
    }

    fn add_beside(
        &mut self,
        name: &str,
        route: &Route,
        before: Option<&Self>,
        isolation: &Isolation,
    ) -> Result<(), ConfigError> {
        let make = |beside: Option<(String, Route)>, old: Option<&Command>| {
            let made = beside.map(|(key, route)| configured(&key, &route, old, isolation));
            made.transpose()
        };
        let old = before.and_then(|before| before.tunnel.as_ref());
        self.tunnel = make(tunnel(name, route), old)?;
        let old = before.and_then(|before| before.fallback.as_ref());
        self.fallback = make(fallback(name, route), old)?;
        Ok(())
    }

    /// Frees those that the route does not have any more. `now` is `None` if the route is gone.
    pub(crate) fn forget_removed(&self, now: Option<&Self>, isolation: &Isolation) {
        let pairs = [
            (Some(&self.own), now.map(|now| &now.own)),
            (
                self.tunnel.as_ref(),
                now.and_then(|now| now.tunnel.as_ref()),
            ),
            (
                self.fallback.as_ref(),
                now.and_then(|now| now.fallback.as_ref()),
            ),
        ];
        for (old, new) in pairs {
            if let (Some(old), None) = (old, new) {
                isolation.remove(old.key().as_str());
            }
        }
    }
}

/// Returns the key and the settings of the command for tunnels, if the route has any.
fn tunnel(name: &str, route: &Route) -> Option<(String, Route)> {
    let tunnel = route.tunnel.as_ref()?;
    Some((format!("{name}:tunnel"), limited(route, tunnel.max)))
}

/// Returns the key and the settings of the command for the upstream of the fallback, if there is one.
fn fallback(name: &str, route: &Route) -> Option<(String, Route)> {
    let fallback = route.fallback.as_ref()?;
    let upstream = fallback.upstream.clone()?;
    let max = fallback.limit.unwrap_or(route.limit.max);
    let limited = Route {
        upstream: Some(upstream),
        // It has what is left of the time of its request.
        timeout: None,
        ..limited(route, max)
    };
    Some((format!("{name}:fallback"), limited))
}

/// Returns the settings of a command beside that of the route: a fixed limit without a queue.
fn limited(route: &Route, max: Count) -> Route {
    Route {
        limit: Limit {
            kind: LimitKind::Fixed,
            max,
            ..route.limit.clone()
        },
        queue: None,
        retry: None,
        ..route.clone()
    }
}
