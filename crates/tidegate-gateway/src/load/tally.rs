//! What became of the requests: outcomes by reason, and times.

use std::collections::BTreeMap;
use std::time::Duration;

use super::schedule::{Due, nanos};

/// Counts of times in nanoseconds.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// The longest time of a histogram, about 18 minutes. A longer one counts as this.
const LONGEST: u64 = 1 << 40;

/// Returns an empty histogram with three digits.
pub(super) fn histogram() -> Histogram {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid")
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A response.
    Status(u16),
    /// A response of a gateway that refused the request, or whose upstream failed: the status, and
    /// the reason in its field.
    Reason(u16, String),
    /// No response within the time limit.
    Timeout,
    /// The server ended the connection before the end of the response.
    Closed,
    /// What the server sent is not a response.
    Malformed(String),
    /// No connection was free within the time limit, so the request was not sent.
    Unsent,
}

impl Outcome {
    /// Returns `true` for a response that is neither a refusal nor an error.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Status(status) if *status < 400)
    }

    /// Returns `true` if a gateway refused the request.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Reason(503 | 429, _))
    }

    fn has_response(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Reason(..))
    }

    /// Returns the name under which the outcome is counted.
    fn name(&self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Reason(status, reason) => format!("{status} {reason}"),
            Self::Timeout => "timeout".to_owned(),
            Self::Closed => "connection closed".to_owned(),
            Self::Malformed(why) => format!("not a response: {why}"),
            Self::Unsent => "not sent: no connection was free".to_owned(),
        }
    }
}

/// A request that has ended. Times are nanoseconds of one clock.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) due: Due,
    /// When it was sent.
    pub(crate) sent: u64,
    /// When its response was complete.
    pub(crate) now: u64,
    pub(crate) outcome: Outcome,
    /// The bytes of the response.
    pub(crate) bytes: u64,
}

/// Requests that have ended, by how good it was.
#[derive(Clone, Debug)]
pub struct Counts {
    /// All of them.
    pub requests: u64,
    /// Successes within the time for good responses.
    pub good: u64,
    /// Successes after that time.
    pub slow: u64,
    /// Refusals of a gateway.
    pub refused: u64,
    /// From the planned time to the end of the response. Of successes, and of requests without a
    /// response.
    pub response: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: 0,
            good: 0,
            slow: 0,
            refused: 0,
            response: histogram(),
        }
    }
}

impl Counts {
    /// Returns how many requests failed.
    pub fn failed(&self) -> u64 {
        self.requests - self.good - self.slow - self.refused
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.slow += other.slow;
        self.refused += other.refused;
        self.response += &other.response;
    }

    /// Counts a request. A success is good up to `within`.
    fn record(&mut self, ended: &Ended, within: u64) {
        let response = ended.response();
        self.requests += 1;
        match ended.outcome.is_success() {
            true if response <= within => self.good += 1,
            true => self.slow += 1,
            false => self.refused += u64::from(ended.outcome.is_refusal()),
        }
        if ended.has_time() {
            self.response.saturating_record(response);
        }
    }
}

impl Ended {
    /// Returns the time from the planned time to the end.
    fn response(&self) -> u64 {
        self.now.saturating_sub(self.due.planned)
    }

    /// Returns `true` if its time counts: a refusal is fast and says nothing about others.
    fn has_time(&self) -> bool {
        self.outcome.is_success() || !self.outcome.has_response()
    }
}

/// All requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Responses with a status below 1000 and no reason.
    statuses: Box<[u64]>,
    others: BTreeMap<String, u64>,
    /// Since the last sample.
    recent: Counts,
    pub(crate) total: Counts,
    /// Requests and good ones of a closed loop that ended after the end of the run. They are in the
    /// total, and in no rate.
    pub(crate) after: (u64, u64),
    pub(crate) bytes: u64,
    /// From the sending to the end of the response, of the requests whose response time counts.
    pub(crate) service: Histogram,
    /// How late requests were sent although a connection was free.
    pub(crate) late: Histogram,
    /// Connections that could not be made, and the last reason.
    pub(crate) connect_failures: u64,
    pub(crate) connect_failure: Option<String>,
    /// Successes up to this time are good.
    within: u64,
}

impl Tally {
    pub(crate) fn new(within: Duration) -> Self {
        Self {
            statuses: vec![0; 1000].into(),
            others: BTreeMap::new(),
            recent: Counts::default(),
            total: Counts::default(),
            after: (0, 0),
            bytes: 0,
            service: histogram(),
            late: histogram(),
            connect_failures: 0,
            connect_failure: None,
            within: nanos(within),
        }
    }

    /// Counts a request.
    pub(crate) fn record(&mut self, ended: &Ended) {
        self.total.record(ended, self.within);
        self.recent.record(ended, self.within);
        self.bytes += ended.bytes;
        match &ended.outcome {
            Outcome::Status(status) if usize::from(*status) < self.statuses.len() => {
                self.statuses[usize::from(*status)] += 1;
            }
            other => *self.others.entry(other.name()).or_default() += 1,
        }
        if ended.has_time() {
            self.service
                .saturating_record(ended.now.saturating_sub(ended.sent));
        }
    }

    /// Counts a request that ended after the end of the run.
    pub(crate) fn record_after(&mut self, ended: &Ended) {
        let good = self.total.good;
        self.record(ended);
        self.after.0 += 1;
        self.after.1 += self.total.good - good;
    }

    /// Takes what has ended since the last call.
    pub(crate) fn take_recent(&mut self) -> Counts {
        std::mem::take(&mut self.recent)
    }

    /// Adds the counts of another tally.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, others) in self.statuses.iter_mut().zip(&other.statuses) {
            *own += others;
        }
        for (name, count) in &other.others {
            *self.others.entry(name.clone()).or_default() += count;
        }
        self.recent.add(&other.recent);
        self.total.add(&other.total);
        self.after.0 += other.after.0;
        self.after.1 += other.after.1;
        self.bytes += other.bytes;
        self.service += &other.service;
        self.late += &other.late;
        self.connect_failures += other.connect_failures;
        let failure = other.connect_failure.clone();
        self.connect_failure = self.connect_failure.take().or(failure);
    }

    /// Returns the number of requests of each outcome, the most frequent first.
    pub(crate) fn outcomes(&self) -> Vec<(String, u64)> {
        let statuses = self.statuses.iter().enumerate();
        let statuses = statuses.map(|(status, count)| (status.to_string(), *count));
        let others = self
            .others
            .iter()
            .map(|(name, count)| (name.clone(), *count));
        let mut all: Vec<_> = statuses
            .chain(others)
            .filter(|(_, count)| *count > 0)
            .collect();
        all.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
        all
    }
}

#[cfg(test)]
mod tests {
    //! Counts by outcome.

    use std::time::Duration;

    use super::{Due, Ended, Outcome, Tally};

    fn ended(outcome: Outcome, now: u64) -> Ended {
        Ended {
            due: Due {
                planned: 0,
                number: 0,
            },
            sent: 5,
            now,
            outcome,
            bytes: 2,
        }
    }

    #[test]
    fn outcomes_are_counted_by_reason_and_refusals_have_no_time() {
        let mut tally = Tally::new(Duration::from_nanos(100));
        let refused = Outcome::Reason(503, "limit".to_owned());
        for (outcome, now) in [
            (Outcome::Status(200), 10),
            (Outcome::Status(200), 101),
            (refused.clone(), 1),
            (refused, 1),
            (Outcome::Reason(502, "closed".to_owned()), 1),
            (Outcome::Status(404), 1),
            (Outcome::Timeout, 500),
        ] {
            tally.record(&ended(outcome, now));
        }
        assert_eq!(
            (tally.total.requests, tally.total.good, tally.bytes),
            (7, 1, 14)
        );
        let recent = tally.take_recent();
        assert_eq!((recent.good, recent.slow), (1, 1));
        assert_eq!((recent.refused, recent.failed()), (2, 3));
        assert_eq!(tally.take_recent().requests, 0);
        let names: Vec<String> = tally.outcomes().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["200", "503 limit", "404", "502 closed", "timeout"]);
        assert_eq!(tally.total.response.len(), 3);
        assert_eq!(
            (
                tally.total.response.value_at_percentile(100.0),
                tally.service.value_at_percentile(100.0)
            ),
            (500, 495)
        );
        let mut both = tally.clone();
        both.add(&tally);
        assert_eq!(both.outcomes()[0], ("200".to_owned(), 4));
    }
}
