//! The properties that a route cannot honour. An operator who sets one would believe that it is in
//! force.

use std::convert::Infallible;

use tidegate::isolate::{Command, Isolation, PermitConfig, Properties};
use tidegate_isolate::{Setting, Settings};

/// The properties of a command without an effect on a route, by the start of their names, and why.
const WITHOUT_EFFECT: [(&str, &str); 7] = [
    ("threadPoolKeyOverride", NO_THREADS),
    ("execution.isolation.thread.interrupt", NO_THREADS),
    ("fallback.", "the fallback of a route is set in the file"),
    ("requestCache.", "a route has no cache"),
    ("requestLog.", "a route has no log of its calls"),
    ("metrics.", FIXED),
    ("circuitBreaker.window.", FIXED),
];
/// The property of the limit, and that of the timeout.
const LIMIT: &str = ".execution.isolation.semaphore.maxConcurrentRequests";
const TIMEOUT: &str = ".execution.isolation.thread.timeoutInMilliseconds";
/// The properties that force the breaker closed and open, and the one that says whether there is one.
const FORCE_CLOSED: &str = ".circuitBreaker.forceClosed";
const FORCED_OPEN: &str = "circuitBreaker.forceOpen";
const HAS_BREAKER: &str = "circuitBreaker.enabled";
/// The property that selects threads or permits.
const STRATEGY: &str = "execution.isolation.strategy";
const NO_THREADS: &str = "a route runs on its event loop, and has no threads of its own";
const FIXED: &str = "a window is fixed for the life of a route";

/// Returns why a property of Hystrix cannot be set to a value while the gateway runs. `None` if it
/// can, or if it is none.
pub(crate) fn why_refused(name: &str, value: &str) -> Option<&'static str> {
    let name = name.strip_prefix("hystrix.")?;
    if name.starts_with("threadpool.") {
        return Some(NO_THREADS);
    }
    if name.starts_with("collapser.") {
        return Some("a route collapses no requests");
    }
    if name.starts_with("stream.") || name.starts_with("config.stream.") {
        return Some("it is read at the start, from a variable of the environment");
    }
    if name.starts_with("timer.") || name.starts_with("plugin.") {
        return Some("it has no use here");
    }
    // The name of a route has no dots.
    let (_, property) = name.strip_prefix("command.")?.split_once('.')?;
    if property == STRATEGY && !value.eq_ignore_ascii_case("SEMAPHORE") {
        return Some(NO_THREADS);
    }
    let mut known = WITHOUT_EFFECT.iter();
    let found = known.find(|(start, _)| property.starts_with(start));
    found.map(|(_, why)| *why)
}

/// Returns why a property of a route that does not exist cannot be set to a value: it would keep a
/// reload from adding the route. A route that exists checks the value itself.
pub(crate) fn why_wrong(name: &str, value: &str, isolation: &Isolation) -> Option<String> {
    let key = name.strip_prefix("hystrix.command.")?.split_once('.')?.0;
    let mut known = isolation.snapshots().into_iter();
    if key == "default" || known.any(|command| command.key.as_str() == key) {
        return None;
    }
    let properties = Properties::new();
    let trial = Isolation::builder().properties(properties.clone()).build();
    let trial = trial.ok()?;
    // A name that is none is refused here.
    let set = properties.set(name, value).map_err(|why| why.to_string());
    let route = Command::<(), Infallible>::builder(key).group(key);
    let route = route.permits(PermitConfig::default()).only_permits();
    let check = |()| route.check(&trial).map_err(|why| why.to_string());
    set.and_then(check).err()
}

/// Returns why a property of a route, which is set to a value, is not in force.
pub(crate) fn why_without_effect(
    name: &str,
    value: &str,
    isolation: &Isolation,
) -> Option<&'static str> {
    let key = name.strip_prefix("hystrix.command.")?.split_once('.')?.0;
    let all = isolation.settings();
    let origin = format!("property {name}");
    if key == "default" {
        let mut values = all.iter().flat_map(|settings| &settings.values);
        // A route without a timeout has no value of it.
        let is_used =
            |value: &Setting| !value.value.is_empty() && value.origin.to_string() == origin;
        let is_used = values.any(is_used);
        let why = "each route has a value of its own: name the route, not `default`";
        return (!is_used).then_some(why);
    }
    let mut known = all.iter().filter(|one| one.command.as_str() == key);
    // The route may come with a reload.
    why_without_effect_in(known.next()?, name, value)
}

/// Returns why a property of this route, which is set to a value, is not in force.
pub(crate) fn why_without_effect_in(
    settings: &Settings,
    name: &str,
    value: &str,
) -> Option<&'static str> {
    let origin = format!("property {name}");
    let is_adaptive = settings
        .get("permits.adaptive")
        .is_some_and(|adaptive| !adaptive.value.is_empty());
    if is_adaptive && name.ends_with(LIMIT) {
        return Some("the limit of the route is adaptive: its bounds are set in the file");
    }
    if name.ends_with(FORCE_CLOSED) && value.eq_ignore_ascii_case("true") {
        return why_not_forced_closed(settings);
    }
    let mut own = settings.values.iter();
    let own = own.find(|one| one.property.as_deref() == Some(name))?;
    match own.origin.to_string() == origin && !own.value.is_empty() {
        true => None,
        false if name.ends_with(TIMEOUT) => {
            Some("the route has no timeout: set `execution.timeout.enabled` to `true` first")
        }
        false => Some("another property overrides it"),
    }
}

/// Returns why the breaker of a route cannot be forced closed.
fn why_not_forced_closed(settings: &Settings) -> Option<&'static str> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|one| one.value == value);
    if is(FORCED_OPEN, "true") {
        return Some(
            "the breaker is forced open, which wins: remove `circuitBreaker.forceOpen` first",
        );
    }
    is(HAS_BREAKER, "false").then_some(
        "the route has no breaker, so it is closed unless it is forced open; for one, set \
         `circuitBreaker.enabled` to `true` first",
    )
}

#[cfg(test)]
mod tests {
    //! Properties with and without an effect.

    use super::why_refused;

    #[test]
    fn a_property_without_an_effect_has_a_reason() {
        let rows = [
            (
                "command.r.execution.isolation.strategy",
                "THREAD",
                "threads",
            ),
            ("command.r.threadPoolKeyOverride", "a", "threads"),
            ("command.default.fallback.enabled", "false", "in the file"),
            ("command.r.requestCache.enabled", "true", "no cache"),
            ("command.r.metrics.rollingStats.numBuckets", "0", "fixed"),
            ("threadpool.r.coreSize", "5", "threads"),
            ("collapser.r.maxRequestsInBatch", "5", "collapses"),
            (
                "stream.config.intervalInMilliseconds",
                "5",
                "read at the start",
            ),
            (
                "config.stream.maxConcurrentConnections",
                "5",
                "read at the start",
            ),
            ("timer.threadpool.default.coreSize", "5", "no use"),
            ("plugin.A.implementation", "a", "no use"),
        ];
        for (name, value, why) in rows {
            let refused = why_refused(&format!("hystrix.{name}"), value);
            assert!(refused.is_some_and(|text| text.contains(why)), "{name}");
        }
    }

    #[test]
    fn what_has_an_effect_or_is_unknown_is_left_to_the_isolation() {
        for name in [
            "hystrix.command.r.execution.isolation.strategy",
            "hystrix.command.r.execution.isolation.thread.timeoutInMilliseconds",
            "hystrix.command.r.execution.isolation.semaphore.maxConcurrentRequests",
            "hystrix.command.r.circuitBreaker.forceOpen",
            "hystrix.command.r.colour",
            "hystrix.command.r",
            "other",
        ] {
            assert_eq!(why_refused(name, "semaphore"), None, "{name}");
        }
    }
}
