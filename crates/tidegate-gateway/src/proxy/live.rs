//! A configuration that is in force: routes with their commands, upstreams with their connections. `draft`
//! makes it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::Files;
use tidegate::isolate::{Command, Retry, RetryBudget};
use tidegate_core::internal::as_nanos;

use super::gate::Gate;
use super::logged::Counts;
use super::reply::Fixed;
use super::upstream::UpstreamState;
use crate::admin::{RouteReport, UpstreamReport};
use crate::command::Commands;
use crate::config::Config;
use crate::config::types::{self, Redirect};
use crate::fields::Rewriting;
use crate::route::PathPattern;
use crate::tls::{Expiry, Trust};

/// A configuration that is in force.
pub(crate) struct Live {
    pub(crate) config: Config,
    /// Which requests are logged. Each route has it.
    pub(super) log: Arc<types::Log>,
    /// At the positions of the table. A route that has not changed is the same as before.
    pub(super) routes: Vec<Arc<RouteState>>,
    pub(super) upstreams: HashMap<String, Arc<UpstreamState>>,
}

/// A route that is in force.
pub(super) struct RouteState {
    pub(super) basis: Arc<RouteBasis>,
    pub(super) action: Action,
}

/// What a route has besides its action.
pub(super) struct RouteBasis {
    /// What all requests share: a request reaches everything through its route.
    pub(super) gate: Arc<Gate>,
    pub(super) name: String,
    pub(super) path: PathPattern,
    /// The largest body of a request. `None` leaves it to the listener.
    pub(super) body: Option<u64>,
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

impl RouteState {
    /// Returns the route, if it passes requests on.
    pub(super) fn proxy(&self) -> Option<&Arc<ProxyRoute>> {
        match &self.action {
            Action::Proxy(proxy) => Some(proxy),
            _ => None,
        }
    }

    /// Returns `true` if the upstreams of the route are among these.
    pub(super) fn has_its_upstreams(&self, all: &HashMap<String, Arc<UpstreamState>>) -> bool {
        let proxy = self.proxy().into_iter();
        let mut own = proxy.flat_map(|proxy| {
            let fallback = proxy.fallback_route();
            [Some(&proxy.upstream), fallback.map(|other| &other.upstream)]
        });
        own.all(|own| {
            own.is_none_or(|own| all.get(&own.name).is_some_and(|one| Arc::ptr_eq(one, own)))
        })
    }
}

/// What a route does.
pub(super) enum Action {
    Proxy(Arc<ProxyRoute>),
    Redirect(Redirect),
    Respond(Fixed),
    Files(Files),
}

/// A route that passes requests on.
pub(super) struct ProxyRoute {
    pub(super) route: Arc<RouteBasis>,
    pub(super) command: Command,
    pub(super) upstream: Arc<UpstreamState>,
    pub(super) retry: Option<Retry<Infallible>>,
    /// The budget of the retries, for operators.
    pub(super) budget: Option<RetryBudget>,
    /// The timeout of the command is that of one attempt.
    pub(super) limits_attempts: bool,
    /// The time of the file for waiting and all attempts, without that of the fallback.
    pub(super) file_timeout: Option<Duration>,
    /// The time that is kept for the fallback, in nanoseconds.
    pub(super) fallback_nanos: u64,
    pub(super) fallback: Option<Fallback>,
    /// Requests wait while the limit is reached.
    pub(super) waits: bool,
    pub(super) server_timing: bool,
    pub(super) tunnel: Option<TunnelRoute>,
}

impl ProxyRoute {
    /// Returns the time that is in force for waiting and all attempts, without that of the fallback.
    /// Operators change that of the command.
    pub(super) fn timeout(&self) -> Option<Duration> {
        match self.limits_attempts {
            true => self.file_timeout,
            false => self.command.timeout(),
        }
    }

    /// Returns the time that is in force for one attempt, if it differs from that of the request.
    pub(super) fn attempt_timeout(&self) -> Option<Duration> {
        match self.limits_attempts {
            true => self.command.timeout(),
            false => None,
        }
    }

    /// Returns when the attempts of a request that began at `began` have to end, or those of a request
    /// for a tunnel; `u64::MAX` if they have no limit.
    pub(super) fn until(&self, began: u64, tunnel: Option<&TunnelRoute>) -> u64 {
        let limit = match tunnel {
            Some(tunnel) => tunnel.command.timeout(),
            None => self.timeout(),
        };
        limit.map_or(u64::MAX, |limit| began.saturating_add(as_nanos(limit)))
    }

    pub(super) fn commands(&self) -> Commands {
        Commands {
            own: self.command.clone(),
            tunnel: self.tunnel.as_ref().map(|tunnel| tunnel.command.clone()),
            fallback: self.fallback_route().map(|route| route.command.clone()),
        }
    }

    /// Returns the other upstream of the route, if its fallback is one.
    pub(super) fn fallback_route(&self) -> Option<&FallbackRoute> {
        match &self.fallback {
            Some(Fallback::Upstream(fallback)) => Some(fallback),
            _ => None,
        }
    }
}

/// Upgraded connections of a route. They count apart from its requests.
pub(super) struct TunnelRoute {
    pub(super) command: Command,
    pub(super) idle: Duration,
    /// The protocols to which a client may upgrade.
    pub(super) protocols: Box<[String]>,
}

/// The response in place of a refusal or a failure.
pub(super) enum Fallback {
    Fixed(Fixed),
    Upstream(FallbackRoute),
}

/// Another upstream in place of a refusal or a failure, with a command of its own: what a route
/// refuses must not reach the other upstream without limit.
pub(super) struct FallbackRoute {
    pub(super) command: Command,
    pub(super) upstream: Arc<UpstreamState>,
}

impl Live {
    /// Begins what runs beside requests, when the configuration is in force: the health checks. Ends what
    /// ran for upstreams of the configuration before that are gone.
    pub(crate) fn begin(&self, before: Option<&Self>) {
        self.upstreams
            .values()
            .for_each(|upstream| upstream.begin());
        let before = before.iter().flat_map(|before| before.upstreams.values());
        before
            .filter(|old| !self.upstreams.contains_key(&old.name))
            .for_each(|gone| gone.end());
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

    /// Returns what was read from the files of TLS of an upstream.
    pub(crate) fn trust(&self, upstream: &str) -> Option<Arc<Trust>> {
        self.upstreams.get(upstream)?.trust().cloned()
    }

    /// Drains a server, or ends its drain. Returns `false` if there is no such server.
    pub(crate) fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool {
        let upstream = self.upstreams.get(upstream);
        upstream.is_some_and(|upstream| upstream.drain(server, draining))
    }

    /// Returns what operators see of routes besides the figures of their commands.
    pub(crate) fn route_reports(&self) -> Vec<RouteReport> {
        let reports = self.routes.iter().map(|route| {
            let proxy = route.proxy();
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
}
