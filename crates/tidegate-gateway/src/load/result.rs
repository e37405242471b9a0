//! The result of a run.

use std::time::Duration;

use super::schedule::{Shape, nanos};
use super::tally::{Histogram, Tally};

/// The loop of the generator is the limit from this share of busy time on.
const BUSY: f64 = 0.9;
/// Requests that are sent later than this, although a connection was free, are late.
const LATE: u64 = 1_000_000;

/// What happened between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The end of the time, in seconds since the start.
    pub(crate) at: f64,
    /// Planned requests per second, if there is a plan.
    pub(crate) rate: Option<f64>,
    /// Requests per second that ended.
    pub(crate) requests: f64,
    pub(crate) good: f64,
    /// Response times in nanoseconds.
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) url: String,
    pub(crate) shape: Shape,
    pub(crate) connections: usize,
    pub(crate) loops: usize,
    pub(crate) elapsed: Duration,
    pub(crate) within: Duration,
    pub(crate) tally: Tally,
    pub(crate) samples: Vec<Sample>,
    /// The share of time in which the busiest loop was busy.
    pub(crate) busy: f64,
    /// Of a ramp: the rate of the best stage and its goodput.
    pub(crate) best: Option<(f64, f64)>,
    /// Why a ramp ended.
    pub(crate) ended: Option<&'static str>,
}

impl RunResult {
    /// Returns requests per second that ended.
    pub(crate) fn rate(&self) -> f64 {
        let in_time = self.tally.total.requests - self.tally.after.0;
        per_second(in_time, self.elapsed)
    }

    /// Returns good responses per second.
    pub(crate) fn goodput(&self) -> f64 {
        per_second(self.tally.total.good - self.tally.after.1, self.elapsed)
    }

    /// Returns the response times, corrected for coordinated omission. Those of an open loop count
    /// from the planned time. Those of a closed loop are corrected by the mean interval of a
    /// connection.
    pub(crate) fn response(&self) -> Histogram {
        match self.shape {
            Shape::Closed => {
                let sent = self.tally.total.requests.max(1);
                let time = nanos(self.elapsed).saturating_mul(self.connections as u64);
                self.tally.total.response.clone_correct(time / sent)
            }
            _ => self.tally.total.response.clone(),
        }
    }

    /// Returns why the generator itself may have been the limit.
    pub(crate) fn bottleneck(&self) -> Option<String> {
        let late = self.tally.late.value_at_percentile(99.0);
        if self.busy >= BUSY {
            let busy = self.busy * 100.0;
            return Some(format!(
                "the load generator was busy {busy:.0} % of the time and may be the limit itself; \
                 give it more --threads, or a machine of its own"
            ));
        }
        if late > LATE {
            let late = super::summary::time(late);
            return Some(format!(
                "the load generator sent 1 % of the requests {late} late or more; \
                 give it more --threads, or a machine of its own"
            ));
        }
        None
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
