//! The exporter: collects the metrics of its sources and writes them.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tidegate_core::Collect;
use tidegate_core::internal::contain;

use super::plain;
use super::samples::{Family, Kind, Samples, Value};
use tidegate_core::internal::lock;

/// Numbers up to this one are exact in a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Source = Arc<dyn Collect + Send + Sync>;

/// Exports metrics to Prometheus. Clones are handles to the same exporter; several exporters work
/// side by side.
///
/// An exporter is also a [`Collector`] of the crate `prometheus-client`: a program with a registry
/// of its own registers a clone there, once: two clones would export each metric twice, which
/// Prometheus refuses.
///
/// ```
/// use prometheus_client::registry::Registry;
/// use tidegate_metrics::Exporter;
/// use tidegate_pool::WorkerPool;
///
/// let workers = WorkerPool::builder("workers").max(4).build()?;
/// let exporter = Exporter::new();
/// exporter.add(workers);
/// assert!(exporter.encode().contains("tidegate_pool_threads_limit{pool=\"workers\"} 4\n"));
///
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(exporter.clone()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The exporter holds its sources. An event loop or a pool that ends with its last handle does not
/// end while an exporter holds one.
///
/// # Threads
///
/// Metrics are collected on the calling thread, with no lock held. A source that blocks delays this
/// caller only. If a source panics, what it described before is exported, and so are the other
/// sources. A source that exports this exporter again gets an empty export: it would never end.
#[derive(Clone, Default)]
pub struct Exporter {
    sources: Arc<Mutex<Vec<Source>>>,
}

impl Exporter {
    /// The content type of [`Exporter::encode`].
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    /// The content type of [`Exporter::encode_plain`].
    pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Creates an exporter without sources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source. Its metrics are exported after those of earlier sources under the same name.
    pub fn add(&self, source: impl Collect + Send + Sync + 'static) {
        lock(&self.sources).push(Arc::new(source));
    }

    /// Returns the metrics as OpenMetrics text, which Prometheus and the OpenTelemetry Collector
    /// read.
    pub fn encode(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("writing to a string does not fail");
        out
    }

    /// Returns the metrics in the older text format of Prometheus, for readers that do not know
    /// OpenMetrics.
    pub fn encode_plain(&self) -> String {
        plain::write(&self.collect()).expect("writing to a string does not fail")
    }

    /// Collects the metrics once and returns a sentence for each one that cannot be exported: an
    /// invalid name or value, a metric that two sources describe, a source that panicked. For a
    /// test of a program's own [`Collect`].
    ///
    /// ```
    /// use tidegate_metrics::{Collect, Exporter, Metric, MetricVisitor};
    ///
    /// struct Cache;
    /// impl Collect for Cache {
    ///     fn collect(&self, visitor: &mut dyn MetricVisitor) {
    ///         visitor.counter(Metric::new("cache-hits", "Lookups that found an entry."), &[], 1.0);
    ///     }
    /// }
    ///
    /// let exporter = Exporter::new();
    /// exporter.add(Cache);
    /// assert!(exporter.problems()[0].contains("`cache-hits`"));
    /// ```
    pub fn problems(&self) -> Vec<String> {
        self.collect().into_problems()
    }

    fn collect(&self) -> Samples {
        let mut samples = Samples::default();
        let Some(_inside) = Inside::enter(&self.sources) else {
            samples.problem("a source exports its own exporter; use another one".to_owned());
            return samples;
        };
        let sources = lock(&self.sources).clone();
        for source in sources {
            if let Err(panic) = contain(|| source.collect(&mut samples)) {
                samples.problem(format!("a source panicked: {}", panic.message()));
            }
        }
        samples
    }
}

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (_, family) in self.collect().families() {
            encode_family(family, &mut encoder)?;
        }
        Ok(())
    }
}

tidegate_core::debug_fields!(Exporter, this => sources: lock(&this.sources).len());

thread_local! {
    /// The addresses of the exporters that collect on this thread.
    static COLLECTING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks an exporter as collecting on this thread, until it is dropped.
struct Inside;

impl Inside {
    /// Returns `None` if the exporter already collects on this thread.
    fn enter(sources: &Arc<Mutex<Vec<Source>>>) -> Option<Self> {
        let address = Arc::as_ptr(sources).addr();
        COLLECTING.with_borrow_mut(|stack| {
            let is_new = !stack.contains(&address);
            is_new.then(|| {
                stack.push(address);
                Self
            })
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // They end in the reverse order of their beginning.
        COLLECTING.with_borrow_mut(Vec::pop);
    }
}

fn encode_family(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let metric = family.metric;
    let unit = match metric.unit {
        "" => None,
        "seconds" => Some(Unit::Seconds),
        "bytes" => Some(Unit::Bytes),
        other => Some(Unit::Other(other.to_owned())),
    };
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let help = plain::escape(metric.help).replace('"', "\\\"");
    let mut encoder = encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind)?;
    for (labels, value) in &family.series {
        if labels.is_empty() {
            encode_value(family.kind, value, &mut encoder)?;
        } else {
            let mut encoder = encoder.encode_family(labels)?;
            encode_value(family.kind, value, &mut encoder)?;
        }
    }
    Ok(())
}

fn encode_value(kind: Kind, value: &Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    match value {
        Value::Buckets(buckets, sum) => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
        Value::Number(number) => {
            // A whole number is written without a fraction.
            let is_whole = number.fract() == 0.0 && number.abs() < EXACT;
            match (kind, is_whole) {
                (Kind::Counter, true) => {
                    encoder.encode_counter::<NoLabelSet, _, u64>(&(*number as u64), None)
                }
                (Kind::Counter, false) => {
                    encoder.encode_counter::<NoLabelSet, _, u64>(number, None)
                }
                (_, true) => encoder.encode_gauge(&(*number as i64)),
                (_, false) => encoder.encode_gauge(number),
            }
        }
    }
}
