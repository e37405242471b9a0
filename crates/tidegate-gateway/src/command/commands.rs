//! The commands of a route: for its requests, for its tunnels, and for the upstream of its fallback.

use std::borrow::Cow;

use tidegate::isolate::{Command, ConfigError, Isolation};

use super::build::{self, Apply, Terms, prepare};
use crate::config::types::{Limit, Route};
use crate::config::{Count, LimitKind};

/// The commands of a route. Tunnels and fallbacks have limits of their own: a tunnel lives long, and
/// what a route refuses must not reach another upstream without limit.
pub(crate) struct Commands {
    pub(crate) own: Command,
    pub(crate) tunnel: Option<Command>,
    pub(crate) fallback: Option<Command>,
}

/// The key of a command, and the settings that it is made from.
type Keyed<'a> = (Cow<'a, str>, Cow<'a, Route>);

impl Commands {
    /// Prepares the commands of a route. Those that it had before stay, and get its new settings if these
    /// differ. Adds what puts them in force to `changes`.
    ///
    /// # Errors
    ///
    /// Which setting is not valid, and why. Nothing has changed then.
    pub(crate) fn prepare(
        name: &str,
        route: &Route,
        before: Option<(&Route, &Self)>,
        isolation: &Isolation,
        changes: &mut Vec<Apply>,
    ) -> Result<Self, ConfigError> {
        let before = before.map(|(route, old)| {
            let commands = [Some(&old.own), old.tunnel.as_ref(), old.fallback.as_ref()];
            (keyed(name, route), commands)
        });
        let mut made = [None, None, None];
        for (at, now) in keyed(name, route).into_iter().enumerate() {
            let Some((key, now)) = now else { continue };
            let old = before.as_ref();
            let old = old.and_then(|(old, commands)| Some((old[at].as_ref()?, commands[at]?)));
            made[at] = Some(match old {
                Some(((_, was), command)) if build::terms(was) == build::terms(&now) => {
                    command.clone()
                }
                _ => {
                    let old = old.map(|(_, command)| command);
                    let (command, apply) = prepare(&key, &now, old, isolation)?;
                    changes.push(apply);
                    command
                }
            });
        }
        let [own, tunnel, fallback] = made;
        Ok(Self {
            own: own.expect("each route has a command for its requests"),
            tunnel,
            fallback,
        })
    }
}

/// Returns the settings of the commands of a route by their keys: none if it passes nothing on.
pub(crate) fn terms<'a>(name: &'a str, route: &'a Route) -> Vec<(Cow<'a, str>, Terms)> {
    let all = keyed(name, route).into_iter().flatten();
    let all = all.filter(|_| route.upstream.is_some());
    all.map(|(key, route)| (key, build::terms(&route)))
        .collect()
}

/// Returns the key and the settings of each command: for requests, for tunnels, for the fallback.
fn keyed<'a>(name: &'a str, route: &'a Route) -> [Option<Keyed<'a>>; 3] {
    let beside = [tunnel(name, route), fallback(name, route)];
    let [tunnel, fallback] =
        beside.map(|one| one.map(|(key, route)| (Cow::Owned(key), Cow::Owned(route))));
    let own = (Cow::Borrowed(name), Cow::Borrowed(route));
    [Some(own), tunnel, fallback]
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
