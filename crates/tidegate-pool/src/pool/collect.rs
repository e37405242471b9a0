//! The metrics of a pool, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor, describe_metrics};

use super::handle::WorkerPool;
use super::metrics::JobTimes;

/// The metrics of the pool. The label `pool` is its name.
///
/// Takes the pool's lock for a moment, as [`WorkerPool::metrics`] does.
impl Collect for WorkerPool {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("pool", self.name())];
        describe_metrics! {
            visitor, &labels, counter "tidegate_pool_":
            jobs_accepted "Jobs accepted, without those of try_execute." = metrics.accepted;
            jobs_done "Jobs that ended, in any way." = metrics.done;
            jobs_refused "Jobs refused because the pool was full or stopped." = metrics.refused;
            jobs_removed "Jobs removed from the queue by their handle." = metrics.removed;
            jobs_displaced "Jobs displaced to make room for others." = metrics.displaced;
            jobs_shed "Jobs that the queue shed." = metrics.shed;
            jobs_cancelled "Jobs whose token was cancelled before they started." = metrics.cancelled;
            jobs_caller_ran "Jobs that ran on the submitter's thread." = metrics.caller_ran;
            job_panics "Jobs that panicked." = metrics.panics;
            reserve_hits "Calls of try_execute that found an idle thread." = metrics.reserve_hits;
            reserve_misses "Calls of try_execute that found no idle thread." = metrics.reserve_misses;
            wakeups "Wake-ups of sleeping threads for a job." = metrics.wakeups;
            threads_started "Threads started." = metrics.started_threads;
            threads_ended "Threads that ended." = metrics.ended_threads;
            threads_failed "Threads that the system could not start." = metrics.failed_starts;
        }
        describe_metrics! {
            visitor, &labels, gauge "tidegate_pool_":
            jobs_queued "Jobs that wait for a thread." = metrics.queued;
            jobs_queued_max "Highest number of queued jobs at a time." = metrics.most_queued;
            queue_limit "Highest number of queued user jobs allowed." = metrics.limits.queue;
            threads "Threads that are started or about to start." = metrics.threads;
            threads_limit "Highest number of threads allowed." = metrics.limits.max;
            threads_max "Highest number of threads at a time." = metrics.most_threads;
            threads_idle "Idle threads, reserved ones included." = metrics.ready;
            threads_reserved "Idle threads that are reserved." = metrics.reserved;
            threads_leased "Threads that are leased to components." = metrics.leased;
            threads_busy "Threads that run a job or are leased." = metrics.busy;
            low "1 if the pool is low on threads, else 0." = u8::from(metrics.low);
        }
        let help = "Time that jobs waited for a thread.";
        times(
            metrics.waits,
            ("tidegate_pool_job_wait", help),
            &labels,
            visitor,
        );
        let help = "Time that jobs ran.";
        times(
            metrics.runs,
            ("tidegate_pool_job_run", help),
            &labels,
            visitor,
        );
    }
}

/// Describes durations, if the pool measures them.
fn times(
    times: Option<JobTimes>,
    (name, help): (&'static str, &'static str),
    labels: &[(&str, &str)],
    visitor: &mut dyn MetricVisitor,
) {
    if let Some(times) = times {
        let buckets = [(f64::INFINITY, times.count)];
        let metric = Metric::new(name, help).seconds();
        visitor.histogram(metric, labels, &buckets, times.total.as_secs_f64());
    }
}
