//! The result of a run as JSON.

use super::result::{RunResult, Sample};
use super::schedule::Shape;
use super::summary::PERCENTILES;
use super::tally::Histogram;
use crate::json::{Object, array, quoted};

/// Returns the result as one object. Times are in milliseconds.
pub(crate) fn report(result: &RunResult) -> String {
    let tally = &result.tally;
    let (kind, rate) = match result.shape {
        Shape::Closed => ("closed", None),
        Shape::Rate(rate) => ("rate", Some(rate)),
        Shape::Ramp { from, .. } => ("ramp", Some(from)),
    };
    let mut outcomes = Object::new();
    for (name, count) in tally.outcomes() {
        outcomes = outcomes.raw(&name, count);
    }
    let (best_rate, best_good) = result.best.unzip();
    let mut text = Object::new()
        .raw("version", 1)
        .text("url", &result.url)
        .text("load", kind)
        .optional("rate", rate)
        .raw("connections", result.connections)
        .raw("threads", result.loops)
        .raw("seconds", result.elapsed.as_secs_f64())
        .raw("requests", tally.total.requests)
        .raw("requests_per_second", result.rate())
        .raw("good", tally.total.good)
        .raw("good_per_second", result.goodput())
        .raw("slow", tally.total.slow)
        .raw("refused", tally.total.refused)
        .raw("failed", tally.total.failed())
        .raw("bytes", tally.bytes)
        .raw("outcomes", outcomes.end())
        .raw("response_ms", times(&result.response()))
        .raw("service_ms", times(&tally.service))
        .optional("best_rate", best_rate)
        .optional("best_good_per_second", best_good)
        .raw("busy", result.busy)
        .optional("bottleneck", result.bottleneck().map(|why| quoted(&why)))
        .raw("samples", array(result.samples.iter().map(sample)))
        .end();
    text.push('\n');
    text
}

fn times(times: &Histogram) -> String {
    let mut object = Object::new()
        .raw("count", times.len())
        .raw("mean", times.mean() / 1e6);
    for (name, percent) in PERCENTILES {
        object = object.raw(name, millis(times.value_at_percentile(percent)));
    }
    object.end()
}

fn sample(sample: &Sample) -> String {
    Object::new()
        .raw("at", sample.at)
        .optional("rate", sample.rate)
        .raw("requests_per_second", sample.requests)
        .raw("good_per_second", sample.good)
        .raw("p50_ms", millis(sample.p50))
        .raw("p99_ms", millis(sample.p99))
        .end()
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
