//! The metrics of one export, checked and grouped by name.
//!
//! A format lists all values of a metric together, and a single line that breaks its rules makes
//! Prometheus discard everything. So metrics are collected here first. What breaks a rule is left
//! out and recorded as a problem.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tidegate_core::{Metric, MetricVisitor};

/// Pairs of name and value.
pub(crate) type Labels = Vec<(String, String)>;

/// Endings that OpenMetrics reserves for the lines of counters and histograms.
const RESERVED: [&str; 8] = [
    "_total", "_created", "_count", "_sum", "_bucket", "_gcount", "_gsum", "_info",
];

/// All metrics, by their name with its unit.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    families: BTreeMap<String, Family>,
    problems: Vec<String>,
}

/// One metric and its values.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) metric: Metric,
    pub(crate) kind: Kind,
    /// In the order in which they were collected.
    pub(crate) series: Vec<(Labels, Value)>,
    /// The position of each combination of labels; finds duplicates.
    known: BTreeMap<Labels, ()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
pub(crate) enum Value {
    Number(f64),
    /// The upper bounds with the count of each bucket, and the sum.
    Buckets(Vec<(f64, u64)>, f64),
}

impl Samples {
    /// Returns the metrics, ordered by name. The name contains the unit.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&str, &Family)> {
        let families = self.families.iter();
        families.map(|(name, family)| (name.as_str(), family))
    }

    pub(crate) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    /// Records a problem.
    pub(crate) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    fn add(&mut self, metric: Metric, kind: Kind, labels: &[(&str, &str)], value: Value) {
        if let Err(why) = self.try_add(metric, kind, labels, value) {
            self.problem(format!(
                "metric `{}` {labels:?} is left out: {why}",
                metric.name
            ));
        }
    }

    fn try_add(
        &mut self,
        metric: Metric,
        kind: Kind,
        labels: &[(&str, &str)],
        value: Value,
    ) -> Result<(), &'static str> {
        let name = full_name(metric)?;
        if RESERVED.iter().any(|ending| name.ends_with(ending)) {
            return Err("its name ends with a word that belongs to the format; leave it out");
        }
        check_labels(labels, kind)?;
        check_value(&value, kind)?;
        let owned = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let labels: Labels = owned.collect();
        let family = self.families.entry(name).or_insert_with(|| Family {
            metric,
            kind,
            series: Vec::new(),
            known: BTreeMap::new(),
        });
        if family.kind != kind || family.metric != metric {
            return Err("another metric has this name; rename one of them");
        }
        let names = |labels: &Labels| labels.iter().map(|(name, _)| name.clone()).collect();
        let names: (Vec<_>, Vec<_>) = match family.series.first() {
            Some((first, _)) => (names(first), names(&labels)),
            None => Default::default(),
        };
        if names.0 != names.1 {
            return Err("it was collected with other labels before; use the same names");
        }
        match family.known.entry(labels.clone()) {
            Entry::Occupied(_) => Err("it was collected before with these labels; add it once"),
            Entry::Vacant(free) => {
                free.insert(());
                family.series.push((labels, value));
                Ok(())
            }
        }
    }
}

impl MetricVisitor for Samples {
    fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        self.add(metric, Kind::Counter, labels, Value::Number(value));
    }

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        self.add(metric, Kind::Gauge, labels, Value::Number(value));
    }

    fn histogram(
        &mut self,
        metric: Metric,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
    ) {
        let value = Value::Buckets(buckets.to_vec(), sum);
        self.add(metric, Kind::Histogram, labels, value);
    }
}

/// Returns the name with its unit.
fn full_name(metric: Metric) -> Result<String, &'static str> {
    let Metric { name, unit, .. } = metric;
    if !is_word(name) || !(unit.is_empty() || is_word(unit)) {
        return Err("its name or unit is not a word of letters, digits and underscores");
    }
    if unit.is_empty() {
        return Ok(name.to_owned());
    }
    Ok(format!("{name}_{unit}"))
}

fn check_labels(labels: &[(&str, &str)], kind: Kind) -> Result<(), &'static str> {
    for (at, (name, _)) in labels.iter().enumerate() {
        if !is_word(name) || name.starts_with("__") {
            return Err("a label is not a word of letters, digits and underscores");
        }
        if kind == Kind::Histogram && *name == "le" {
            return Err("a label is called `le`, which belongs to the format; rename it");
        }
        if labels[..at].iter().any(|(other, _)| other == name) {
            return Err("it has two labels of one name; rename one of them");
        }
    }
    Ok(())
}

fn check_value(value: &Value, kind: Kind) -> Result<(), &'static str> {
    match value {
        Value::Number(number) if !number.is_finite() => Err("its value is not a finite number"),
        Value::Number(number) if kind == Kind::Counter && *number < 0.0 => {
            Err("it is a counter and below zero; make it a gauge")
        }
        Value::Number(_) => Ok(()),
        Value::Buckets(buckets, sum) => {
            let ends = buckets
                .last()
                .is_some_and(|(bound, _)| *bound == f64::INFINITY);
            let ascends = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let begins = buckets
                .first()
                .is_some_and(|(bound, _)| *bound > f64::NEG_INFINITY);
            if !(begins && ends && ascends && sum.is_finite()) {
                return Err("its bounds do not ascend to infinity, or its sum is not finite");
            }
            let mut counts = buckets.iter().map(|(_, count)| *count);
            match counts.try_fold(0, u64::checked_add) {
                Some(_) => Ok(()),
                None => Err("the sum of its counts does not fit into 64 bits"),
            }
        }
    }
}

/// Returns `true` for letters, digits and underscores, not starting with a digit.
fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_part) && !text.as_bytes()[0].is_ascii_digit()
}
