//! All checks, in order.

use super::checks::Checks;
use crate::config::load::Config;
use crate::config::mistake::Mistakes;
use crate::config::types::Route;
use crate::route::{Rule, Tie};

/// Returns the conditions of a route.
pub(in crate::config) fn rule(route: &Route) -> Rule {
    Rule {
        hosts: route.host.clone(),
        path: route.path.clone(),
        methods: route.method.iter().map(|method| method.0.clone()).collect(),
        headers: route.header.clone(),
    }
}

/// Runs all checks. `whole` is `false` if a route could not be read: what it uses is not known. `wrong`
/// are the settings that could not be read.
pub(in crate::config) fn all(
    config: &Config,
    ties: &[Tie],
    whole: bool,
    wrong: &[String],
    mistakes: &mut Mistakes,
) {
    let mut checks = Checks::new(config, wrong, mistakes);
    checks.listeners();
    for upstream in &config.upstreams {
        checks.upstream(upstream);
        checks.upstream_texts(upstream);
    }
    for route in &config.routes {
        checks.action(route);
        checks.references(route);
        checks.connect(route);
        checks.route_texts(route);
        checks.limit(route);
        checks.times(route);
        if let (Some(retry), Some(timeout)) = (&route.value.retry, route.value.attempts_time()) {
            checks.retries(route, retry, timeout);
        }
    }
    checks.ties(ties);
    checks.unreachable(ties);
    if whole {
        checks.unused();
    }
}
