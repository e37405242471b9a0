//! The commands of a route: for its requests, for its tunnels, and for the upstream of its fallback.

use tidegate::isolate::{Command, ConfigError, Isolation};

use super::build::configured;
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
        let own = configured(name, route, old, isolation)?;
        let beside = |kind: &str, route: Route, old: Option<&Command>| {
            configured(&format!("{name}:{kind}"), &route, old, isolation)
        };
        let tunnel = route.tunnel.as_ref().map(|tunnel| {
            let old = before.and_then(|before| before.tunnel.as_ref());
            beside("tunnel", limited(route, tunnel.max), old)
        });
        let fallback = route.fallback.as_ref();
        let fallback = fallback.filter(|fallback| fallback.upstream.is_some());
        let fallback = fallback.map(|fallback| {
            let old = before.and_then(|before| before.fallback.as_ref());
            let max = fallback.limit.unwrap_or(route.limit.max);
            let limited = Route {
                upstream: fallback.upstream.clone(),
                // It has what is left of the time of its request.
                timeout: None,
                ..limited(route, max)
            };
            beside("fallback", limited, old)
        });
        Ok(Self {
            own,
            tunnel: tunnel.transpose()?,
            fallback: fallback.transpose()?,
        })
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
