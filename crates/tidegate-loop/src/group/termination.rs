//! The termination of a group, combined from the terminations of its event loops.

use std::sync::Arc;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_pool::internal::EndHome;
use tidegate_pool::{HandedBack, ShutdownError};
use tidegate_promise::{SharedCompletion, promise_on};

use crate::shutdown::report::ShutdownReport;

/// Returns the sum of the reports if there is no failure. Otherwise returns the first failure, with
/// the tasks that all event loops hand back. An event loop that is stuck adds its tasks later.
fn whole_end(
    reports: &[ShutdownReport],
    failures: &[ShutdownError],
) -> Result<ShutdownReport, ShutdownError> {
    let Some(first) = failures.first() else {
        return Ok(ShutdownReport::sum(reports));
    };
    let mut all = Vec::new();
    for failure in failures {
        all.extend(failure.handed_back().cloned());
    }
    all.push(ShutdownReport::sum(reports).handed_back);
    // If this kind of failure has no list of tasks, the tasks stay with the group and its loops.
    Err(first.clone().with_handed_back(HandedBack::of_all(&all)))
}

/// Combines the terminations of a group into one. It completes when the last of `ends` has
/// completed: with the sum of the reports, or with the failure that was reported first. `home`
/// refuses the waits of the group's own tasks. `ends` must not be empty.
pub(super) fn gather(
    home: Arc<EndHome>,
    ends: Vec<SharedCompletion<ShutdownReport, ShutdownError>>,
) -> SharedCompletion<ShutdownReport, ShutdownError> {
    struct Sum {
        missing: usize,
        reports: Vec<ShutdownReport>,
        failures: Vec<ShutdownError>,
    }
    let (promise, whole) = promise_on(home);
    // All waiters share one completion: none of them can cancel it.
    promise.set_uncancellable();
    let promise = promise.share();
    let sum = Arc::new(Mutex::new(Sum {
        missing: ends.len(),
        reports: Vec::new(),
        failures: Vec::new(),
    }));
    for end in ends {
        let (promise, sum) = (promise.clone(), Arc::clone(&sum));
        end.on_complete(move |outcome| {
            let mut sum = lock(&sum);
            match outcome {
                tidegate_promise::Outcome::Success(report) => sum.reports.push(report.clone()),
                tidegate_promise::Outcome::Failure(why) => sum.failures.push(why.clone()),
                tidegate_promise::Outcome::Cancelled => {}
            }
            sum.missing -= 1;
            if sum.missing > 0 {
                return;
            }
            let reports = std::mem::take(&mut sum.reports);
            let failures = std::mem::take(&mut sum.failures);
            drop(sum);
            let _ = promise.try_complete(whole_end(&reports, &failures));
        });
    }
    whole
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}
