//! Puts a configuration in force: in two steps, so that one that cannot be used changes nothing.
//!
//! ```text
//!   Draft::new ──▶ the listeners are opened ──▶ Draft::finish ──▶ Live
//!   reads all files,                            the commands get their settings
//!   checks the commands
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
use crate::command::{self, Commands};
use crate::config::types::{self, Route};
use crate::config::{Config, Named};
use crate::fields::Rewriting;
use crate::parts::Parts;

type Upstreams = HashMap<String, Arc<UpstreamState>>;

/// A configuration whose files are read, and that is not in force.
pub(crate) struct Draft {
    config: Config,
    upstreams: Upstreams,
    /// For each route. The action is `None` if it passes requests on.
    actions: Vec<(Rewriting, Option<Action>)>,
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
    /// Prepares a configuration. What has not changed since `before` is taken over: servers with their
    /// connections.
    ///
    /// # Errors
    ///
    /// What cannot be used: a file, an address, a setting. Nothing has changed then.
    pub(crate) fn new(
        config: Config,
        before: Option<&Live>,
        parts: &Parts,
    ) -> Result<Self, BuildError> {
        let upstreams = upstreams(&config, before, parts)?;
        Self::with(config, upstreams, parts)
    }

    /// Prepares a configuration that differs from the one before in the settings of routes only. No file is
    /// read, and the upstreams stay.
    ///
    /// # Errors
    ///
    /// What cannot be used. Nothing has changed then.
    pub(crate) fn adjusted(
        config: Config,
        before: &Live,
        parts: &Parts,
    ) -> Result<Self, BuildError> {
        Self::with(config, before.upstreams.clone(), parts)
    }

    fn with(config: Config, upstreams: Upstreams, parts: &Parts) -> Result<Self, BuildError> {
        let mut actions = Vec::new();
        for route in &config.routes {
            let (name, value) = (&route.name, &route.value);
            let error = |why: String| BuildError::new("route", name, why);
            let rewriting = Rewriting::new(value.rewrite.as_ref()).map_err(error)?;
            let action = action(value).map_err(error)?;
            if action.is_none() {
                let checked = Commands::check(name, value, &parts.isolation);
                checked.map_err(|why| error(why.to_string()))?;
            }
            actions.push((rewriting, action));
        }
        Ok(Self {
            config,
            upstreams,
            actions,
        })
    }

    /// Puts the configuration in force. Commands that have not changed since `before` keep their
    /// breakers; all get their settings at once.
    ///
    /// # Errors
    ///
    /// A command cannot be made, because a property has changed since it was checked. Commands that were
    /// changed before the error have their new settings.
    pub(crate) fn finish(
        mut self,
        before: Option<&Live>,
        isolation: &Isolation,
        gate: &Arc<Gate>,
    ) -> Result<Arc<Live>, BuildError> {
        let actions = std::mem::take(&mut self.actions);
        let (mut routes, log) = (Vec::new(), Arc::new(self.config.log.clone()));
        for (route, (rewriting, action)) in self.config.routes.iter().zip(actions) {
            let basis = Arc::new(RouteBasis {
                gate: Arc::clone(gate),
                name: route.name.clone(),
                path: route.value.path.clone(),
                body: route.value.body.map(|size| size.0),
                rewriting,
                log: Arc::clone(&log),
                counts: before
                    .and_then(|before| before.route(&route.name))
                    .map(|route| Arc::clone(&route.counts))
                    .unwrap_or_default(),
            });
            let action = match action {
                Some(action) => Ok(action),
                None => self.proxy(route, &basis, before, isolation),
            };
            match action {
                Ok(action) => routes.push(RouteState { basis, action }),
                Err(why) => {
                    forget_new(&routes, before, isolation);
                    return Err(why);
                }
            }
        }
        let live = Live {
            config: self.config,
            routes,
            upstreams: self.upstreams,
        };
        if let Some(before) = before {
            live.forget_removed(before, isolation);
        }
        Ok(Arc::new(live))
    }

    /// Returns the action of a route that passes requests on.
    fn proxy(
        &self,
        Named { name, value, .. }: &Named<Route>,
        basis: &Arc<RouteBasis>,
        before: Option<&Live>,
        isolation: &Isolation,
    ) -> Result<Action, BuildError> {
        let old = before.and_then(|before| before.proxy(name));
        let old = old.map(ProxyRoute::commands);
        let commands = Commands::configured(name, value, old.as_ref(), isolation);
        let commands = commands.map_err(|why| BuildError::new("route", name, why))?;
        let kept = before.and_then(|before| before.budget(name, value));
        proxy(value, basis, (commands, kept), &self.upstreams)
            .ok_or_else(|| BuildError::new("route", name, "it has no action"))
    }
}

/// Frees the commands of these routes that `before` does not have.
fn forget_new(routes: &[RouteState], before: Option<&Live>, isolation: &Isolation) {
    for route in routes {
        if let Action::Proxy(new) = &route.action {
            let old = before.and_then(|before| before.proxy(&route.name));
            let old = old.map(ProxyRoute::commands);
            new.commands().forget_removed(old.as_ref(), isolation);
        }
    }
}

/// Returns the upstreams of a configuration by their names.
fn upstreams(
    config: &Config,
    before: Option<&Live>,
    parts: &Parts,
) -> Result<Upstreams, BuildError> {
    let mut upstreams = HashMap::new();
    for upstream in &config.upstreams {
        let (name, value) = (&upstream.name, &upstream.value);
        let old = before.and_then(|before| before.upstreams.get(name));
        let made = UpstreamState::new(name, value, old, parts);
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
