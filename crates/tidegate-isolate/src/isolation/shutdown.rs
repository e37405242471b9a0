//! The end of an isolation: its report, collected from the reports of its pools.

use std::fmt;
use std::sync::{Arc, Mutex};

use tidegate_core::Clock;
use tidegate_core::executor::ExecutorId;
use tidegate_pool::ShutdownError;
use tidegate_pool::internal::EndHome;
use tidegate_promise::{Outcome, Promise, SharedCompletion, promise_on};

use crate::key::Key;
use crate::lock::lock;

type PoolResult = Result<tidegate_pool::ShutdownReport, ShutdownError>;

/// How the pools of an isolation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// The report of every pool, ordered by key, or the reason why its shutdown failed.
    pub pools: Vec<(Key, Result<tidegate_pool::ShutdownReport, ShutdownError>)>,
}

impl ShutdownReport {
    /// Returns `true` if every accepted call on threads has ended: no pool failed to shut down, no
    /// job is stuck, and no job was handed back without having started.
    pub fn is_clean(&self) -> bool {
        let clean = |report: &tidegate_pool::ShutdownReport| {
            report.stuck.is_empty() && report.handed_back.is_empty()
        };
        let mut pools = self.pools.iter();
        pools.all(|(_, result)| result.as_ref().is_ok_and(clean))
    }
}

/// One line for each pool.
impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pools.is_empty() {
            return f.write_str("no pools");
        }
        let mut gap = "";
        for (key, result) in &self.pools {
            match result {
                Ok(report) => write!(f, "{gap}{key}: {report}")?,
                Err(error) => write!(f, "{gap}{key}: {error}")?,
            }
            gap = "\n";
        }
        Ok(())
    }
}

/// Collects the reports of all pools. The listener that adds the last one completes the promise.
struct Collector {
    results: Vec<(Key, Option<PoolResult>)>,
    missing: usize,
    promise: Option<Promise<ShutdownReport>>,
}

/// Returns a completion that ends when all pools have ended. It does not fail: the failure of a
/// pool is part of the report, so that the reports of the other pools are not lost.
/// `pools` are the pools whose calls must not wait for it; waits for it use `clock`.
pub(super) fn collect(
    pools: Vec<ExecutorId>,
    clock: &Clock,
    ends: &[(
        Key,
        SharedCompletion<tidegate_pool::ShutdownReport, ShutdownError>,
    )],
) -> SharedCompletion<ShutdownReport> {
    let (promise, report) = promise_on(EndHome::of_all(pools, "the isolation", clock));
    // The pools end whether or not a waiter still wants the report.
    promise.set_uncancellable();
    let Ok(report) = report.share() else {
        unreachable!("a new completion has no listener");
    };
    if ends.is_empty() {
        let _ = promise.succeed(ShutdownReport::default());
        return report;
    }
    let collector = Arc::new(Mutex::new(Collector {
        results: ends.iter().map(|(key, _)| (key.clone(), None)).collect(),
        missing: ends.len(),
        promise: Some(promise),
    }));
    for (at, (_, end)) in ends.iter().enumerate() {
        let collector = Arc::clone(&collector);
        end.on_complete(move |outcome| {
            let result = match outcome {
                Outcome::Success(report) => Ok(report.clone()),
                Outcome::Failure(why) => Err(why.clone()),
                Outcome::Cancelled => Err(ShutdownError::Lost),
            };
            let done = lock(&collector).add(at, result);
            // Completed without the lock: listeners are user code.
            if let Some((promise, report)) = done {
                let _ = promise.succeed(report);
            }
        });
    }
    report
}

impl Collector {
    /// Stores the result of one pool. Returns what to complete if it was the last one.
    fn add(
        &mut self,
        at: usize,
        result: PoolResult,
    ) -> Option<(Promise<ShutdownReport>, ShutdownReport)> {
        self.results[at].1 = Some(result);
        self.missing -= 1;
        if self.missing > 0 {
            return None;
        }
        let mut report = ShutdownReport::default();
        for (key, result) in std::mem::take(&mut self.results) {
            if let Some(result) = result {
                report.pools.push((key, result));
            }
        }
        self.promise.take().map(|promise| (promise, report))
    }
}

#[cfg(test)]
mod tests {
    //! The text of a report.

    use tidegate_pool::StuckJob;

    use super::*;

    #[test]
    fn prints_one_line_for_each_pool() {
        assert_eq!(ShutdownReport::default().to_string(), "no pools");
        let ran = tidegate_pool::ShutdownReport {
            ran: 3,
            stuck: vec![StuckJob {
                thread: "mail-0".to_owned(),
                task: "send",
            }],
            ..tidegate_pool::ShutdownReport::default()
        };
        let report = ShutdownReport {
            pools: vec![
                ("mail".into(), Ok(ran)),
                ("search".into(), Err(ShutdownError::Unsupported)),
            ],
        };
        let expected = "\
mail: 3 jobs ended in the shutdown, 0 handed back, `send` still runs on mail-0
search: the executor was not shut down because it does not support it; leave it running";
        assert_eq!(report.to_string(), expected);
    }
}
