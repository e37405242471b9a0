//! The metrics of a pool, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::handle::WorkerPool;
use super::metrics::{JobTimes, PoolMetrics};

/// The metrics of the pool. The label `pool` is its name.
///
/// Takes the pool's lock for a moment, as [`WorkerPool::metrics`] does.
impl Collect for WorkerPool {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("pool", self.name())];
        jobs(&metrics, &labels, visitor);
        threads(&metrics, &labels, visitor);
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

fn jobs(metrics: &PoolMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        (
            "tidegate_pool_jobs_accepted",
            "Jobs accepted, without those of try_execute.",
            metrics.accepted,
        ),
        (
            "tidegate_pool_jobs_done",
            "Jobs that ended, in any way.",
            metrics.done,
        ),
        (
            "tidegate_pool_jobs_refused",
            "Jobs refused because the pool was full or stopped.",
            metrics.refused,
        ),
        (
            "tidegate_pool_jobs_removed",
            "Jobs removed from the queue by their handle.",
            metrics.removed,
        ),
        (
            "tidegate_pool_jobs_displaced",
            "Jobs displaced to make room for others.",
            metrics.displaced,
        ),
        (
            "tidegate_pool_jobs_shed",
            "Jobs that the queue shed.",
            metrics.shed,
        ),
        (
            "tidegate_pool_jobs_cancelled",
            "Jobs whose token was cancelled before they started.",
            metrics.cancelled,
        ),
        (
            "tidegate_pool_jobs_caller_ran",
            "Jobs that ran on the submitter's thread.",
            metrics.caller_ran,
        ),
        (
            "tidegate_pool_job_panics",
            "Jobs that panicked.",
            metrics.panics,
        ),
        (
            "tidegate_pool_reserve_hits",
            "Calls of try_execute that found an idle thread.",
            metrics.reserve_hits,
        ),
        (
            "tidegate_pool_reserve_misses",
            "Calls of try_execute that found no idle thread.",
            metrics.reserve_misses,
        ),
        (
            "tidegate_pool_wakeups",
            "Wake-ups of sleeping threads for a job.",
            metrics.wakeups,
        ),
    ] {
        visitor.counter(Metric::new(name, help), labels, value as f64);
    }
    queue(metrics, labels, visitor);
}

fn queue(metrics: &PoolMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        (
            "tidegate_pool_jobs_queued",
            "Jobs that wait for a thread.",
            metrics.queued,
        ),
        (
            "tidegate_pool_jobs_queued_max",
            "Highest number of queued jobs at a time.",
            metrics.most_queued,
        ),
        (
            "tidegate_pool_queue_limit",
            "Highest number of queued user jobs allowed.",
            metrics.limits.queue,
        ),
    ] {
        visitor.gauge(Metric::new(name, help), labels, value as f64);
    }
}

fn threads(metrics: &PoolMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        (
            "tidegate_pool_threads_started",
            "Threads started.",
            metrics.started_threads,
        ),
        (
            "tidegate_pool_threads_ended",
            "Threads that ended.",
            metrics.ended_threads,
        ),
        (
            "tidegate_pool_threads_failed",
            "Threads that the system could not start.",
            metrics.failed_starts,
        ),
    ] {
        visitor.counter(Metric::new(name, help), labels, value as f64);
    }
    for (name, help, value) in [
        (
            "tidegate_pool_threads",
            "Threads that are started or about to start.",
            metrics.threads,
        ),
        (
            "tidegate_pool_threads_limit",
            "Highest number of threads allowed.",
            metrics.limits.max,
        ),
        (
            "tidegate_pool_threads_max",
            "Highest number of threads at a time.",
            metrics.most_threads,
        ),
        (
            "tidegate_pool_threads_idle",
            "Idle threads, reserved ones included.",
            metrics.ready,
        ),
        (
            "tidegate_pool_threads_reserved",
            "Idle threads that are reserved.",
            metrics.reserved,
        ),
        (
            "tidegate_pool_threads_leased",
            "Threads that are leased to components.",
            metrics.leased,
        ),
        (
            "tidegate_pool_threads_busy",
            "Threads that run a job or are leased.",
            metrics.busy,
        ),
        (
            "tidegate_pool_low",
            "1 if the pool is low on threads, else 0.",
            usize::from(metrics.low),
        ),
    ] {
        visitor.gauge(Metric::new(name, help), labels, value as f64);
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
