//! The sections of the command of a route.

use std::time::Duration;

use crate::config::notation::Share;
use crate::config::setting::settings;
use crate::config::values::{Count, LimitKind, Percent, Ratio, Status};

settings! {
    /// The largest number of requests in flight. More are queued or refused. A number in place of
    /// the table is a fixed limit.
    pub struct Limit short "max" {
        /// Whether the limit follows the latency.
        kind: LimitKind = LimitKind::Fixed,
        /// The limit, or the highest one of an adaptive limit.
        max: Count = Count(100),
        /// The lowest adaptive limit.
        min: Count = Count(1),
        /// The first adaptive limit.
        initial: Count = Count(20),
    }
}

settings! {
    /// Where requests wait while the limit is reached. A number in place of the table is its
    /// length.
    pub struct Queue short "max" {
        /// The largest number of requests that wait.
        max: Count = Count(50),
        /// The longest time that a request waits.
        wait: Duration = Duration::from_millis(50),
    }
}

settings! {
    /// The circuit breaker: refuses requests at once while the upstream fails. Requests that the limit
    /// refuses do not count.
    pub struct Breaker {
        /// Opens when at least this share of the requests failed.
        error_rate: Percent = Percent(50),
        /// The smallest number of requests in the window for which a rate is judged.
        volume: Count = Count(20),
        /// The window of the rates, at least 20 ms. They are judged twenty times in a window, and at
        /// least twice a second; ten thousand times in a window of more than 5000 s.
        window: Duration = Duration::from_secs(10),
        /// How long all requests are refused before one is tried.
        sleep: Duration = Duration::from_secs(5),
        /// A request that takes longer is slow.
        slow: Option<Duration> = None,
        /// Opens when at least this share of the requests were slow.
        slow_rate: Percent = Percent(100),
    }
}

settings! {
    /// Further attempts, only where they are safe: nothing was sent, or the method is idempotent
    /// and nothing was received. Another server comes first. `timeout` covers all attempts. A
    /// number in place of the table is `times`.
    pub struct Retry short "times" {
        /// The largest number of further attempts.
        times: Count = Count(1),
        /// The share of requests that may be repeated, and three more; 0 allows none.
        budget: Ratio = Ratio(Share::percent(20)),
        /// The pause before each further attempt, shortened at random by up to a half.
        pause: Duration = Duration::ZERO,
        /// The time for each attempt; off means what is left of `timeout`. It does not run while the
        /// client sends the body, and begins anew with the last byte, or when the server takes no more.
        attempt_timeout: Option<Duration> = None,
    }
}

settings! {
    /// The response in place of a refusal or a failure: a fixed one, or that of another upstream.
    pub struct Fallback, whole {
        /// The upstream that gets the request.
        upstream: Option<String> = None,
        /// The part of the route's `timeout` that is kept for the upstream of the fallback: waiting
        /// and all attempts before it end so much earlier. If they fail before, the fallback has all
        /// that is left of `timeout`. Off means a quarter of `timeout`.
        timeout: Option<Duration> = None,
        /// The largest number of requests in flight at the upstream of the fallback. More get the
        /// refusal or the failure itself. Off means that of `limit`.
        limit: Option<Count> = None,
        /// The status of a fixed response.
        status: Status = Status(503),
        /// The body of a fixed response.
        body: String = String::new(),
        /// The `Content-Type` of a fixed response.
        content_type: String = "text/plain; charset=utf-8".to_owned(),
    }
}
