//! A configuration that is in force: routes with their commands, upstreams with their connections.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::Files;
use tidegate::isolate::{Command, ConfigError, Isolation, Retry, RetryBudget};
use tidegate_core::internal::as_nanos;

use super::answer::Answer;
use super::gate::Gate;
use super::logged::Counts;
use super::reply::Fixed;
use super::upstream::UpstreamState;
use crate::admin::{RouteReport, UpstreamReport};
use crate::command;
use crate::config::types::{self, Redirect, Route};
use crate::config::{Config, LimitKind};
use crate::fields::Rewriting;
use crate::parts::Parts;
use crate::route::PathPattern;
use crate::tls::Expiry;

/// A configuration that is in force.
pub(crate) struct Live {
    pub(crate) config: Config,
    /// At the positions of the table.
    pub(super) routes: Vec<RouteState>,
    upstreams: HashMap<String, Arc<UpstreamState<Answer>>>,
}

/// A route that is in force.
#[derive(Debug)]
pub(super) struct RouteState {
    pub(super) basis: Arc<RouteBasis>,
    pub(super) action: Action,
}

/// What a route has besides its action.
#[derive(Debug)]
pub(super) struct RouteBasis {
    /// What all requests share: a request reaches everything through its route.
    pub(super) gate: Arc<Gate>,
    pub(super) name: String,
    pub(super) path: PathPattern,
    /// The largest body of a request.
    pub(super) body: u64,
    pub(super) rewriting: Rewriting,
    /// Which requests are logged.
    pub(super) log: Arc<types::Log>,
    /// The problems of the route. They outlive a reload.
    pub(super) counts: Arc<Counts>,
}

impl Deref for RouteState {
    type Target = RouteBasis;

    fn deref(&self) -> &RouteBasis {
        &self.basis
    }
}

/// What a route does.
#[derive(Debug)]
pub(super) enum Action {
    Proxy(Arc<ProxyRoute>),
    Redirect(Redirect),
    Respond(Fixed),
    Files(Files),
}

/// A route that passes requests on.
#[derive(Debug)]
pub(super) struct ProxyRoute {
    pub(super) route: Arc<RouteBasis>,
    pub(super) command: Command,
    pub(super) upstream: Arc<UpstreamState<Answer>>,
    pub(super) retry: Option<Retry<Infallible>>,
    /// The budget of the retries, for operators.
    budget: Option<RetryBudget>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    /// The timeout in nanoseconds; `u64::MAX` for none.
    limit_nanos: u64,
    pub(super) fallback: Option<Fallback>,
    /// Requests wait while the limit is reached.
    pub(super) waits: bool,
    pub(super) server_timing: bool,
    pub(super) tunnel: Option<TunnelRoute>,
}

impl ProxyRoute {
    /// Returns when the time of a request is over that has begun at `began`.
    pub(super) fn until(&self, began: u64) -> u64 {
        began.saturating_add(self.limit_nanos)
    }
}

/// Upgraded connections of a route. They count apart from its requests.
#[derive(Debug)]
pub(super) struct TunnelRoute {
    pub(super) command: Command,
    pub(super) idle: Duration,
}

/// The response in place of a refusal or a failure.
#[derive(Debug)]
pub(super) enum Fallback {
    Fixed(Fixed),
    Upstream(Arc<UpstreamState<Answer>>),
}

/// Why a configuration without mistakes cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{section}: {why}")]
pub(crate) struct BuildError {
    section: String,
    why: String,
}

impl BuildError {
    fn new(section: &str, name: &str, why: impl ToString) -> Self {
        Self {
            section: format!("{section}.{name}"),
            why: why.to_string(),
        }
    }
}

impl Live {
    /// Puts a configuration in force. What has not changed since `before` is taken over: commands
    /// with their breakers, servers with their connections.
    ///
    /// # Errors
    ///
    /// What cannot be used: a file, an address, a setting. The old configuration then stays in
    /// force; commands that were changed before the error have their new settings.
    pub(crate) fn new(
        config: Config,
        before: Option<&Self>,
        parts: &Parts,
        gate: &Arc<Gate>,
    ) -> Result<Arc<Self>, BuildError> {
        let isolation = &parts.isolation;
        let upstreams = upstreams(&config, before, parts)?;
        // Everything that reads files first: a command takes over its settings at once.
        let mut actions = Vec::new();
        for route in &config.routes {
            let (name, value) = (&route.name, &route.value);
            let error = |why: String| BuildError::new("route", name, why);
            let rewriting = Rewriting::new(value.rewrite.as_ref()).map_err(error)?;
            let action = action(value).map_err(error)?;
            actions.push((rewriting, action));
        }
        let (mut routes, log) = (Vec::new(), Arc::new(config.log.clone()));
        for (route, (rewriting, action)) in config.routes.iter().zip(actions) {
            let (name, value) = (&route.name, &route.value);
            let basis = Arc::new(RouteBasis {
                gate: Arc::clone(gate),
                name: name.clone(),
                path: value.path.clone(),
                body: value.body.map_or(u64::MAX, |size| size.0),
                rewriting,
                log: Arc::clone(&log),
                counts: before
                    .and_then(|before| before.route(name))
                    .map(|route| Arc::clone(&route.counts))
                    .unwrap_or_default(),
            });
            let action = match action {
                Some(action) => action,
                None => {
                    let old = before.and_then(|before| before.proxy(name));
                    let commands = commands(name, value, old, isolation);
                    let commands = commands.map_err(|why| BuildError::new("route", name, why))?;
                    proxy(value, &basis, commands, &upstreams)
                        .ok_or_else(|| BuildError::new("route", name, "it has no action"))?
                }
            };
            routes.push(RouteState { basis, action });
        }
        let live = Self {
            config,
            routes,
            upstreams,
        };
        if let Some(before) = before {
            live.forget_removed(before, isolation);
        }
        Ok(Arc::new(live))
    }

    /// Begins what runs beside requests, when the configuration is in force: the health checks.
    pub(crate) fn begin(&self) {
        self.upstreams
            .values()
            .for_each(|upstream| upstream.begin());
    }

    /// Returns the upstreams as operators see them, in the order of the configuration.
    pub(crate) fn report(&self) -> Vec<UpstreamReport> {
        let names = self.config.upstreams.iter().map(|upstream| &upstream.name);
        let own = names.filter_map(|name| self.upstreams.get(name));
        own.map(|upstream| upstream.report()).collect()
    }

    /// Returns the settings of the certificates of upstreams, and when each expires.
    pub(crate) fn expiries(&self) -> Vec<(String, Expiry)> {
        let all = self.upstreams.values();
        all.flat_map(|upstream| upstream.expiries()).collect()
    }

    /// Drains a server, or ends its drain. Returns `false` if there is no such server.
    pub(crate) fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        let upstream = self.upstreams.get(upstream);
        upstream.is_some_and(|upstream| upstream.drain(server, draining))
    }

    /// Frees the commands that this configuration does not have any more.
    fn forget_removed(&self, before: &Self, isolation: &Isolation) {
        for route in &before.routes {
            let Some(old) = before.proxy(&route.name) else {
                continue;
            };
            let new = self.proxy(&route.name);
            if new.is_none() {
                isolation.remove(old.command.key().as_str());
            }
            if let Some(tunnel) = &old.tunnel
                && new.is_none_or(|new| new.tunnel.is_none())
            {
                isolation.remove(tunnel.command.key().as_str());
            }
        }
    }

    /// Returns what operators see of routes besides the figures of their commands.
    pub(crate) fn route_reports(&self) -> Vec<RouteReport> {
        let reports = self.routes.iter().map(|route| {
            let proxy = match &route.action {
                Action::Proxy(proxy) => Some(proxy),
                _ => None,
            };
            let reasons = route.counts.get();
            RouteReport {
                name: route.name.clone(),
                upstream: proxy.map(|proxy| proxy.upstream.name.clone()),
                budget_left: proxy.and_then(|proxy| Some(proxy.budget.as_ref()?.left())),
                reasons: reasons
                    .map(|(reason, count)| (reason.word(), count))
                    .collect(),
            }
        });
        reports.collect()
    }

    /// Returns the problems of each route, by its name.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&str, &Counts)> {
        let routes = self.routes.iter();
        routes.map(|route| (&*route.name, &*route.counts))
    }

    fn route(&self, name: &str) -> Option<&RouteState> {
        let mut routes = self.routes.iter();
        routes.find(|route| route.name == name)
    }

    /// Returns a route that passes requests on.
    fn proxy(&self, name: &str) -> Option<&ProxyRoute> {
        match &self.route(name)?.action {
            Action::Proxy(proxy) => Some(proxy),
            _ => None,
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// Returns the upstreams of a configuration by their names.
fn upstreams(
    config: &Config,
    before: Option<&Live>,
    parts: &Parts,
) -> Result<HashMap<String, Arc<UpstreamState<Answer>>>, BuildError> {
    let shown = config.origins.iter();
    let shown = shown.filter(|origin| origin.path.starts_with("upstream."));
    let shown: HashMap<&str, &str> = shown
        .map(|origin| (&*origin.path, &*origin.shown))
        .collect();
    let mut upstreams = HashMap::new();
    for upstream in &config.upstreams {
        let (name, value) = (&upstream.name, &upstream.value);
        // An address with a variable is shown as it is in the file.
        let label = |(index, server): (usize, &types::Server)| {
            let path = format!("upstream.{name}.servers[{index}].at");
            match shown.get(&*path) {
                Some(shown) => Arc::from(shown.trim_matches('"')),
                None => Arc::from(server.at.to_string()),
            }
        };
        let labels = value.servers.iter().enumerate().map(label).collect();
        let old = before.and_then(|before| before.upstreams.get(name));
        let made = UpstreamState::new(name, value, labels, old, parts);
        let made = made.map_err(|why| BuildError::new("upstream", name, why))?;
        upstreams.insert(name.clone(), made);
    }
    Ok(upstreams)
}

/// Returns the action of a route that passes nothing on.
fn action(route: &Route) -> Result<Option<Action>, String> {
    if let Some(redirect) = &route.redirect {
        return Ok(Some(Action::Redirect(redirect.clone())));
    }
    if let Some(respond) = &route.respond {
        return Ok(Some(Action::Respond(Fixed {
            status: respond.status.0,
            content_type: respond.content_type.clone(),
            body: respond.body.clone(),
        })));
    }
    let Some(files) = &route.files else {
        return Ok(None);
    };
    let service = Files::builder(&files.root).index(&files.index).build();
    service
        .map(|service| Some(Action::Files(service)))
        .map_err(|why| why.to_string())
}

/// Returns the commands of a route: for its requests, and for its tunnels.
fn commands(
    name: &str,
    route: &Route,
    before: Option<&ProxyRoute>,
    isolation: &Isolation,
) -> Result<(Command, Option<TunnelRoute>), ConfigError> {
    let old = before.map(|before| &before.command);
    let command = command::configured(name, route, old, isolation)?;
    let Some(tunnel) = &route.tunnel else {
        return Ok((command, None));
    };
    let limited = Route {
        limit: types::Limit {
            kind: LimitKind::Fixed,
            max: tunnel.max,
            ..route.limit.clone()
        },
        queue: None,
        retry: None,
        ..route.clone()
    };
    let old = before.and_then(|before| before.tunnel.as_ref());
    let old = old.map(|old| &old.command);
    let own = command::configured(&format!("{name}:tunnel"), &limited, old, isolation)?;
    let idle = tunnel.idle;
    let tunnel = TunnelRoute { command: own, idle };
    Ok((command, Some(tunnel)))
}

/// Returns the action of a route that passes requests on.
fn proxy(
    route: &Route,
    basis: &Arc<RouteBasis>,
    (command, tunnel): (Command, Option<TunnelRoute>),
    upstreams: &HashMap<String, Arc<UpstreamState<Answer>>>,
) -> Option<Action> {
    let find = |name: &String| upstreams.get(name).cloned();
    let fallback = route
        .fallback
        .as_ref()
        .map(|fallback| match &fallback.upstream {
            Some(name) => find(name).map(Fallback::Upstream),
            None => Some(Fallback::Fixed(fixed(fallback))),
        });
    let (retry, budget) = command::retries(route).unzip();
    Some(Action::Proxy(Arc::new(ProxyRoute {
        route: Arc::clone(basis),
        command,
        upstream: route.upstream.as_ref().and_then(find)?,
        retry,
        budget,
        attempt_timeout: route.retry.as_ref().and_then(|retry| retry.attempt_timeout),
        timeout: route.timeout,
        limit_nanos: route.timeout.map_or(u64::MAX, as_nanos),
        fallback: fallback.flatten(),
        waits: route.queue.is_some(),
        server_timing: route.server_timing,
        tunnel,
    })))
}

fn fixed(fallback: &types::Fallback) -> Fixed {
    Fixed {
        status: fallback.status.0,
        content_type: fallback.content_type.clone(),
        body: fallback.body.clone(),
    }
}
