//! Prepares a configuration beside the one that is in force. What has not changed is taken over, all that can
//! fail is done, and nothing has changed for anybody until it is applied.
//!
//! ```text
//!   Draft::new ──▶ the listeners are opened ──▶ Draft::apply ──▶ Lives::replace
//!   routes, upstreams and commands of           the commands get their settings;
//!   the plan                                    it cannot fail
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use tidegate::http::Files;
use tidegate::isolate::{Isolation, RetryBudget};
use tidegate_core::internal::as_nanos;
use tidegate_http::FilesError;

use super::gate::Gate;
use super::live::{
    Action, Fallback, FallbackRoute, Live, ProxyRoute, RouteBasis, RouteState, TunnelRoute,
};
use super::reply::Fixed;
use super::upstream::UpstreamState;
use crate::command::{self, Apply, Commands};
use crate::config::types::{self, Route};
use crate::config::{Config, Named};
use crate::fields::Rewriting;
use crate::parts::Parts;
use crate::plan::{Part, Plan, Step};
use crate::tls::TlsFiles;

type Upstreams = HashMap<String, Arc<UpstreamState>>;

/// A configuration that is prepared and not in force. Dropping it changes nothing.
pub(crate) struct Draft {
    live: Arc<Live>,
    /// Puts the commands that are new, and new settings of others, in force.
    pub(super) changes: Vec<Apply>,
    /// The keys of the commands that are gone.
    gone: Vec<String>,
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

impl Draft {
    /// Prepares a configuration. What has not changed since `before` is taken over: routes, commands with
    /// their breakers, servers with their connections.
    ///
    /// # Errors
    ///
    /// What cannot be used: a file, an address, a setting. Nothing has changed then.
    pub(crate) fn new(
        config: Config,
        before: Option<&Live>,
        tls: &TlsFiles,
        on: (&Arc<Gate>, &Parts),
    ) -> Result<Self, BuildError> {
        let upstreams = upstreams(&config, before, tls, on.1)?;
        Self::with(config, upstreams, before, on)
    }

    /// Prepares a configuration that differs from the one before in the settings of routes only: the
    /// upstreams stay.
    ///
    /// # Errors
    ///
    /// What cannot be used. Nothing has changed then.
    pub(crate) fn adjusted(
        config: Config,
        before: &Live,
        on: (&Arc<Gate>, &Parts),
    ) -> Result<Self, BuildError> {
        Self::with(config, before.upstreams.clone(), Some(before), on)
    }

    fn with(
        config: Config,
        upstreams: Upstreams,
        before: Option<&Live>,
        (gate, parts): (&Arc<Gate>, &Parts),
    ) -> Result<Self, BuildError> {
        let old_log = before.map(|before| &before.log);
        let old_log = old_log.filter(|log| ***log == config.log);
        let log = old_log.map_or_else(|| Arc::new(config.log.clone()), Arc::clone);
        let plan = Plan::diff(before.map(|before| &before.config), &config);
        let mut making = Making {
            gate,
            isolation: &parts.isolation,
            upstreams: &upstreams,
            log: &log,
            changes: Vec::new(),
        };
        let mut routes = Vec::with_capacity(config.routes.len());
        for (route, part) in config.routes.iter().zip(&plan.routes) {
            let old = before.zip(part.before);
            let old = old.map(|(old, at)| (&old.config.routes[at].value, &old.routes[at]));
            let made = making.route(route, part, old);
            routes.push(made.map_err(|why| BuildError::new("route", &route.name, why))?);
        }
        let gone = plan
            .commands
            .iter()
            .filter(|part| part.step == Step::Remove);
        Ok(Self {
            gone: gone.map(|part| part.name.to_string()).collect(),
            changes: making.changes,
            live: Arc::new(Live {
                log,
                routes,
                upstreams,
                config,
            }),
        })
    }

    /// Returns what is prepared.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Puts the commands in force: those that have not changed keep their breakers, those that are gone are
    /// freed. Returns the configuration, for [`Lives::replace`](super::Lives::replace).
    pub(crate) fn apply(self, isolation: &Isolation) -> Arc<Live> {
        self.changes.into_iter().for_each(|apply| apply());
        for key in &self.gone {
            isolation.remove(key);
        }
        self.live
    }
}

/// What routes are made of.
struct Making<'a> {
    gate: &'a Arc<Gate>,
    isolation: &'a Isolation,
    upstreams: &'a Upstreams,
    log: &'a Arc<types::Log>,
    changes: Vec<Apply>,
}

/// The settings of a route before, and the route that was made of them.
type Old<'a> = Option<(&'a Route, &'a Arc<RouteState>)>;

impl Making<'_> {
    /// Makes a route, or takes over the one before if neither it nor what it uses has changed.
    fn route(
        &mut self,
        Named { name, value, .. }: &Named<Route>,
        part: &Part<'_>,
        old: Old<'_>,
    ) -> Result<Arc<RouteState>, String> {
        if let Some((_, old)) = old
            && part.step == Step::Keep
            && Arc::ptr_eq(&old.log, self.log)
            && old.has_its_upstreams(self.upstreams)
        {
            if value.files.is_some() {
                // Its directory has to be there all the same.
                action(value)?;
            }
            return Ok(Arc::clone(old));
        }
        let basis = Arc::new(RouteBasis {
            gate: Arc::clone(self.gate),
            name: name.clone(),
            path: value.path.clone(),
            body: value.body.map(|size| size.0),
            rewriting: Rewriting::new(value.rewrite.as_ref())?,
            log: Arc::clone(self.log),
            counts: old.map_or_else(Arc::default, |(_, old)| Arc::clone(&old.counts)),
        });
        let action = match action(value)? {
            Some(action) => action,
            None => self.proxy(value, &basis, old)?,
        };
        Ok(Arc::new(RouteState { basis, action }))
    }

    /// Returns the action of a route that passes requests on.
    fn proxy(
        &mut self,
        value: &Route,
        basis: &Arc<RouteBasis>,
        old: Old<'_>,
    ) -> Result<Action, String> {
        let old = old.and_then(|(route, old)| Some((route, old.proxy()?)));
        let commands = old.map(|(route, old)| (route, old.commands()));
        let before = commands.as_ref().map(|(route, old)| (*route, old));
        let (isolation, changes) = (self.isolation, &mut self.changes);
        let commands = Commands::prepare(&basis.name, value, before, isolation, changes);
        let commands = commands.map_err(|why| why.to_string())?;
        // With another share it is another budget. Otherwise each reload would give new retries.
        let share = |route: &Route| route.retry.as_ref().map(|retry| retry.budget);
        let kept = old.filter(|(route, _)| share(route) == share(value));
        let kept = kept.and_then(|(_, old)| old.budget.clone());
        proxy(value, basis, (commands, kept), self.upstreams)
            .ok_or_else(|| "it has no action".to_owned())
    }
}

/// Returns the upstreams of a configuration by their names.
fn upstreams(
    config: &Config,
    before: Option<&Live>,
    tls: &TlsFiles,
    parts: &Parts,
) -> Result<Upstreams, BuildError> {
    let mut upstreams = HashMap::new();
    for upstream in &config.upstreams {
        let (name, value) = (&upstream.name, &upstream.value);
        let old = before.and_then(|before| before.upstreams.get(name));
        let made = tls
            .trust(name)
            .and_then(|trust| UpstreamState::new(name, value, trust, old, parts));
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
    let service = Files::builder(&*files.root).index(&files.index).build();
    let root = &files.root;
    service
        .map(|service| Some(Action::Files(service)))
        .map_err(|why| match why {
            FilesError::Directory { why, .. } => {
                format!("the directory `{root}` cannot be served: {why}; name one that exists")
            }
            why => why.to_string(),
        })
}

/// Returns the action of a route that passes requests on.
fn proxy(
    route: &Route,
    basis: &Arc<RouteBasis>,
    (commands, kept): (Commands, Option<RetryBudget>),
    upstreams: &Upstreams,
) -> Option<Action> {
    let find = |name: &String| upstreams.get(name).cloned();
    let fallback = match &route.fallback {
        Some(fallback) => Some(match (&fallback.upstream, commands.fallback) {
            (Some(name), Some(command)) => Fallback::Upstream(FallbackRoute {
                command,
                upstream: find(name)?,
            }),
            _ => Fallback::Fixed(fixed(fallback)),
        }),
        None => None,
    };
    let tunnel = commands.tunnel.zip(route.tunnel.as_ref());
    let tunnel = tunnel.map(|(command, tunnel)| TunnelRoute {
        command,
        idle: tunnel.idle,
        protocols: tunnel.protocols.iter().map(|own| own.0.clone()).collect(),
    });
    let (retry, budget) = command::retries(route, kept).unzip();
    Some(Action::Proxy(Arc::new(ProxyRoute {
        route: Arc::clone(basis),
        command: commands.own,
        upstream: route.upstream.as_ref().and_then(find)?,
        retry,
        budget,
        limits_attempts: route
            .retry
            .as_ref()
            .is_some_and(|retry| retry.attempt_timeout.is_some()),
        file_timeout: route.attempts_time(),
        fallback_nanos: route.fallback_time().map_or(0, as_nanos),
        fallback,
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
