//! The figures of a route at one moment: what its command counts, and what the gateway adds.

use std::time::Duration;

use tidegate::isolate::{BreakerMode, Event};
use tidegate_isolate::{CommandSnapshot, EventCounts};

use super::reports::RouteReport;
use crate::command::Reason;

/// How calls have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) timeout: u64,
    /// Refused by the limit of the route.
    pub(crate) limit: u64,
    /// Refused by the breaker.
    pub(crate) breaker: u64,
    /// Refused by the rate limit.
    pub(crate) rate: u64,
    pub(crate) bad_request: u64,
    pub(crate) cancelled: u64,
    pub(crate) fallback: u64,
    pub(crate) retried: u64,
    pub(crate) hedged: u64,
}

impl Counts {
    fn of(counts: &EventCounts) -> Self {
        Self {
            ok: counts[Event::Success],
            failed: counts[Event::Failure],
            timeout: counts[Event::Timeout],
            limit: counts[Event::PermitsRejected] + counts[Event::PoolRejected],
            breaker: counts[Event::ShortCircuited],
            rate: counts[Event::RateLimited],
            bad_request: counts[Event::BadRequest],
            cancelled: counts[Event::Cancelled],
            fallback: counts[Event::FallbackSuccess],
            retried: counts[Event::Retried],
            hedged: counts[Event::Hedged],
        }
    }

    /// Returns the number of calls. A call that was refused counts, too.
    pub(crate) fn calls(&self) -> u64 {
        let refused = self.refused();
        let ended = self.ok + self.failed + self.timeout + self.bad_request + self.cancelled;
        refused + ended
    }

    /// Returns the number of refused calls.
    pub(crate) fn refused(&self) -> u64 {
        self.limit + self.breaker + self.rate
    }
}

/// The states of a breaker, as in the arrays of [`Figures`].
pub(crate) const STATES: [&str; 4] = ["closed", "open", "half_open", "ramping"];

/// The figures of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) key: String,
    pub(crate) group: String,
    /// In the window.
    pub(crate) window: Counts,
    pub(crate) window_length: Duration,
    /// Since the start.
    pub(crate) totals: Counts,
    pub(crate) error_percent: u64,
    pub(crate) in_flight: usize,
    pub(crate) limit: usize,
    pub(crate) is_adaptive: bool,
    pub(crate) waiting: usize,
    pub(crate) queue_limit: usize,
    pub(crate) overstaying: usize,
    pub(crate) oldest: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    /// The state of the breaker; `None` if it is off.
    pub(crate) breaker: Option<usize>,
    /// 0, or 1 if it is forced open, or 2 if it is forced closed.
    pub(crate) forced: u8,
    /// How often the breaker entered each state.
    pub(crate) entered: [u64; 4],
    /// The time that the breaker spent in each state.
    pub(crate) times: [Duration; 4],
    /// Mean, and the percentiles 50, 90, 99 and 99.5 of the total time.
    pub(crate) latencies: [Duration; 5],
    /// What the gateway adds.
    pub(crate) route: RouteReport,
}

impl Figures {
    pub(crate) fn new(command: &CommandSnapshot, route: Option<&RouteReport>) -> Self {
        let config = &command.config;
        let total = &command.latencies.total;
        let percentile = |percent| total.percentile(percent);
        let (breaker, forced) = match config.breaker.mode {
            BreakerMode::Disabled => (None, 0),
            BreakerMode::ForcedOpen => (Some(command.breaker as usize), 1),
            BreakerMode::ForcedClosed => (Some(command.breaker as usize), 2),
            _ => (Some(command.breaker as usize), 0),
        };
        Self {
            key: command.key.as_str().to_owned(),
            group: command.group.as_str().to_owned(),
            window: Counts::of(&command.window),
            window_length: config.metrics.counts.length,
            totals: Counts::of(&command.totals),
            error_percent: command.window.error_percent(),
            in_flight: command.active,
            limit: command.limit,
            is_adaptive: command.adaptive_limit.is_some(),
            waiting: command.waiting,
            queue_limit: match config.permits.max_wait.is_zero() {
                true => 0,
                false => config.permits.max_waiting,
            },
            overstaying: command.overstaying,
            oldest: command.oldest_overstaying,
            timeout: config.timeout,
            breaker,
            forced,
            entered: command.breaker_entered,
            times: command.breaker_times,
            latencies: [
                total.mean(),
                percentile(50.0),
                percentile(90.0),
                percentile(99.0),
                percentile(99.5),
            ],
            route: route.cloned().unwrap_or_default(),
        }
    }

    /// Returns the calls per second, over the window.
    pub(crate) fn rate(&self) -> f64 {
        match self.window_length.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.window.calls() as f64 / seconds,
        }
    }

    /// Returns how many requests were refused since the start with a reason that the command does
    /// not count.
    pub(crate) fn other(&self) -> u64 {
        let other = [Reason::NoServer, Reason::Closing, Reason::Descriptors];
        let other = other.map(Reason::word);
        let reasons = self.route.reasons.iter();
        let reasons = reasons.filter(|(word, _)| other.contains(word));
        reasons.map(|(_, count)| count).sum()
    }
}
