//! The command of a route: limit, queue, timeout, breaker, retries.

use std::convert::Infallible;
use std::time::Duration;

use tidegate::isolate::{
    AdaptiveLimit, BreakerConfig, BreakerMode, BreakerWindow, Command, ConfigError, Isolation,
    PermitConfig, Retry, RetryBudget,
};
use tidegate_isolate::CommandBuilder;

use crate::config::LimitKind;
use crate::config::types::{self, Route};

/// The smallest number of buckets of a breaker's window.
const BUCKETS: u64 = 20;
/// The largest number. A bucket in which something was counted holds a few words.
const MOST_BUCKETS: u64 = 10_000;
/// The longest bucket, unless there would be too many. A breaker judges when a bucket ends.
const LONGEST_BUCKET: Duration = Duration::from_millis(500);

/// Puts a command, or its new settings, in force.
pub(crate) type Apply = Box<dyn FnOnce() + Send>;

/// The settings of a command: permits, timeout, breaker.
pub(crate) type Terms = (PermitConfig, Option<Duration>, BreakerConfig);

pub(super) fn terms(route: &Route) -> Terms {
    (permits(route), attempt_timeout(route), breaker(route))
}

/// Prepares the command of a route. A command with this key that exists takes over the new settings,
/// and keeps its breaker, windows and limit. If a setting is new that is fixed for the life of a
/// command, the command begins anew. Nothing has changed until the returned function is called.
///
/// # Errors
///
/// Which setting is not valid, and why.
pub(super) fn prepare(
    name: &str,
    route: &Route,
    before: Option<&Command>,
    isolation: &Isolation,
) -> Result<(Command, Apply), ConfigError> {
    let (permits, timeout, breaker) = terms(route);
    let group = route.upstream.as_deref().unwrap_or(name);
    // Requests are admitted on their loop: a command with threads would refuse all of them.
    let command: CommandBuilder<(), Infallible> = Command::builder(name)
        .group(group)
        .permits(permits)
        .only_permits();
    let command = match timeout {
        Some(timeout) => command.timeout(timeout),
        None => command.no_timeout(),
    };
    command.breaker(breaker).prepare(isolation, before)
}

/// Returns the retries of a route, and their budget: the one that is `kept`, or a new one.
pub(crate) fn retries(
    route: &Route,
    kept: Option<RetryBudget>,
) -> Option<(Retry<Infallible>, RetryBudget)> {
    let retry = route.retry.as_ref()?;
    let share = u32::from(retry.budget.0.hundredths());
    let reserve = match share {
        0 => 0,
        _ => RetryBudget::RESERVE,
    };
    let budget = kept.unwrap_or_else(|| RetryBudget::from_hundredths(share, reserve));
    let policy = Retry::attempts(retry.times.0.saturating_add(1));
    let policy = policy.backoff(retry.pause, 1.0).budget(&budget);
    Some((policy, budget))
}

/// Returns the time of one attempt.
fn attempt_timeout(route: &Route) -> Option<Duration> {
    let attempt = route.retry.as_ref().and_then(|retry| retry.attempt_timeout);
    attempt.or(route.attempts_time())
}

fn permits(route: &Route) -> PermitConfig {
    let limit = &route.limit;
    let max = limit.max.0 as usize;
    let adaptive = (limit.kind == LimitKind::Adaptive).then(|| AdaptiveLimit {
        initial: (limit.initial.0 as usize).min(max),
        min: limit.min.0 as usize,
        max,
        ..AdaptiveLimit::vegas()
    });
    let (max_waiting, max_wait) = match &route.queue {
        Some(queue) => (queue.max.0 as usize, queue.wait),
        None => (0, Duration::ZERO),
    };
    PermitConfig {
        limit: max,
        max_wait,
        max_waiting,
        adaptive,
        ..PermitConfig::default()
    }
}

fn breaker(route: &Route) -> BreakerConfig {
    let Some(breaker) = &route.breaker else {
        return BreakerConfig {
            mode: BreakerMode::Disabled,
            ..BreakerConfig::default()
        };
    };
    BreakerConfig {
        window: window(breaker),
        min_calls: breaker.volume.0,
        error_percent: breaker.error_rate.0,
        // Too many clients say nothing about the servers.
        count_rejections: false,
        slow_call: breaker.slow,
        slow_percent: breaker.slow_rate.0,
        sleep: breaker.sleep,
        ..BreakerConfig::default()
    }
}

/// Returns the window of a breaker. It has the smallest number of buckets that are short enough and
/// divide it.
fn window(breaker: &types::Breaker) -> BreakerWindow {
    let length = u64::try_from(breaker.window.as_nanos()).unwrap_or(u64::MAX);
    let least = length.div_ceil(LONGEST_BUCKET.as_nanos() as u64);
    let least = least.clamp(BUCKETS, MOST_BUCKETS);
    let divides = |buckets: &u64| length.is_multiple_of(*buckets);
    let buckets = (least..=MOST_BUCKETS).find(divides);
    let buckets = buckets.or_else(|| (BUCKETS..least).rev().find(divides));
    // Only odd nanoseconds have none; a few of them are left out.
    let buckets = buckets.unwrap_or(least);
    match BreakerConfig::default().window {
        BreakerWindow::Time(mut window) => {
            window.buckets = buckets as u32;
            window.length = Duration::from_nanos(length - length % buckets);
            BreakerWindow::Time(window)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    //! Settings as they are in a file, and the command made from them.

    use tidegate::isolate::BreakerState;

    use super::*;
    use crate::config::tests::config_of;

    fn route(settings: &str) -> Route {
        let text = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\n[upstream.a]\nservers = \"127.0.0.1:1\"\n\
             [route.r]\nupstream = \"a\"\n{settings}"
        );
        config_of(&text).routes.remove(0).value
    }

    fn configured(
        name: &str,
        route: &Route,
        before: Option<&Command>,
        isolation: &Isolation,
    ) -> Result<Command, ConfigError> {
        let (command, apply) = prepare(name, route, before, isolation)?;
        apply();
        Ok(command)
    }

    fn command(settings: &str) -> Command {
        let isolation = Isolation::builder().build().unwrap();
        configured("r", &route(settings), None, &isolation).unwrap()
    }

    #[test]
    fn each_setting_of_the_file_reaches_the_command() {
        let command = command(
            "limit = 7\nqueue = { max = 3, wait = \"20ms\" }\ntimeout = \"500ms\"\n\
             breaker = { error_rate = 30, volume = 5, window = \"2s\", sleep = \"9s\", slow = \"100ms\", \
             slow_rate = 80 }\n",
        );
        let config = command.config();
        assert_eq!((config.permits.limit, config.permits.max_waiting), (7, 3));
        assert_eq!(config.permits.max_wait, Duration::from_millis(20));
        assert_eq!(config.timeout, Some(Duration::from_millis(500)));
        let breaker = &config.breaker;
        assert_eq!((breaker.error_percent, breaker.min_calls), (30, 5));
        assert_eq!(
            (breaker.sleep, breaker.slow_percent),
            (Duration::from_secs(9), 80)
        );
        assert_eq!(breaker.slow_call, Some(Duration::from_millis(100)));
    }

    #[test]
    fn a_route_without_breaker_and_queue_has_none() {
        let command = command("timeout = false\n");
        let config = command.config();
        assert_eq!(config.breaker.mode, BreakerMode::Disabled);
        assert_eq!(
            (config.timeout, config.permits.max_wait),
            (None, Duration::ZERO)
        );
    }

    #[test]
    fn an_adaptive_limit_has_the_bounds_of_the_file() {
        let command = command("limit = { kind = \"adaptive\", min = 2, initial = 5, max = 50 }\n");
        let config = command.config();
        let limit = config.permits.adaptive.as_ref().unwrap();
        assert_eq!((limit.min, limit.initial, limit.max), (2, 5, 50));
    }

    #[test]
    fn a_command_with_new_settings_keeps_its_breaker() {
        let clock = tidegate::ManualClock::new();
        let isolation = Isolation::builder().clock(&clock).build().unwrap();
        let settings = "breaker = { error_rate = 1, volume = 1 }\n";
        let first = configured("r", &route(settings), None, &isolation).unwrap();
        let fail = || drop(first.admit().map(|entry| entry.verdict(false)));
        fail();
        clock.advance(Duration::from_secs(1));
        fail();
        let state = |command: &Command| command.snapshot().breaker;
        assert_eq!(state(&first), BreakerState::Open);
        let changed = format!("limit = 3\n{settings}");
        let second = configured("r", &route(&changed), Some(&first), &isolation).unwrap();
        assert_eq!(second.config().permits.limit, 3);
        assert_eq!((state(&second), isolation.len()), (BreakerState::Open, 1));
        assert!(second.admit().is_err());
        // A window is fixed for the life of a command.
        let changed = "breaker = { error_rate = 1, volume = 1, window = \"4s\" }\n";
        let third = configured("r", &route(changed), Some(&second), &isolation).unwrap();
        assert_eq!((state(&third), isolation.len()), (BreakerState::Closed, 1));
    }

    #[test]
    fn a_breaker_with_a_long_window_opens_within_half_a_second() {
        for window in ["10s", "7s", "5m", "1h"] {
            let clock = tidegate::ManualClock::new();
            let isolation = Isolation::builder().clock(&clock).build().unwrap();
            let breaker = format!("breaker = {{ volume = 5, window = \"{window}\" }}\n");
            let command = configured("r", &route(&breaker), None, &isolation).unwrap();
            let fail = || drop(command.admit().map(|entry| entry.verdict(false)));
            (0..5).for_each(|_| fail());
            clock.advance(Duration::from_millis(500));
            fail();
            let state = command.snapshot().breaker;
            assert_eq!(state, BreakerState::Open, "{window}");
        }
    }

    /// The window in force is that of the file, however many parts it has.
    #[test]
    fn a_window_is_not_rounded() {
        for (window, millis) in [
            ("20ms", 20),
            ("25ms", 25),
            ("10003ms", 10_003),
            ("11.3s", 11_300),
            ("5003s", 5_003_000),
            ("40d", 3_456_000_000),
        ] {
            let command = command(&format!("breaker = {{ window = \"{window}\" }}\n"));
            let BreakerWindow::Time(parts) = command.config().breaker.window else {
                panic!("{window}: the window counts requests");
            };
            assert_eq!(parts.length, Duration::from_millis(millis), "{window}");
        }
    }

    #[test]
    fn a_budget_below_one_percent_is_not_rounded() {
        for (budget, further) in [("0.001", 5), ("0.005", 13), ("0.2", 403), ("0", 0)] {
            let settings = format!("retry = {{ times = 1, budget = {budget} }}\n");
            let (_, budget) = retries(&route(&settings), None).unwrap();
            let spent = (0..2000).filter(|_| {
                budget.earn();
                budget.try_spend()
            });
            assert_eq!(spent.count(), further, "{settings}");
        }
    }

    #[test]
    fn no_source_of_properties_gives_a_route_threads() {
        let properties = tidegate::isolate::Properties::new();
        let isolation = Isolation::builder().properties(properties.clone());
        let isolation = isolation.build().unwrap();
        let first = configured("r", &route(""), None, &isolation).unwrap();
        let strategy = "hystrix.command.r.execution.isolation.strategy";
        let why = properties.set(strategy, "THREAD").unwrap_err().to_string();
        assert!(why.contains("no threads"), "{why}");
        assert!(first.admit().is_ok());
        let again = configured("r", &route("limit = 3\n"), Some(&first), &isolation).unwrap();
        assert_eq!(again.config().permits.limit, 3);
        assert!(again.admit().is_ok());
        properties.set(strategy, "SEMAPHORE").unwrap();
        // One that a source has for a route that comes later.
        let strategy = strategy.replace(".r.", ".later.");
        properties.set(&strategy, "THREAD").unwrap();
        let why = configured("later", &route(""), None, &isolation).unwrap_err();
        assert!(why.to_string().contains("no threads"), "{why}");
    }

    #[test]
    fn the_time_of_an_attempt_is_that_of_the_retry() {
        let with = "timeout = \"1s\"\nretry = { times = 2, attempt_timeout = \"300ms\" }\n";
        assert_eq!(
            command(with).config().timeout,
            Some(Duration::from_millis(300))
        );
        let with = "timeout = \"2s\"\nfallback = { upstream = \"a\", timeout = \"500ms\" }\n";
        assert_eq!(
            command(with).config().timeout,
            Some(Duration::from_millis(1500)),
            "the rest is for the fallback"
        );
        assert!(retries(&route(""), None).is_none());
        let (_, budget) = retries(&route("retry = 2\n"), None).unwrap();
        assert_eq!(budget.left(), u64::from(RetryBudget::RESERVE));
    }
}
