//! The text format of Prometheus, version 0.0.4.
//!
//! It differs from OpenMetrics in the name of a counter, which ends with `_total` in every line,
//! and has neither units nor an end mark.

use std::fmt::{self, Write};

use super::samples::{Family, Kind, Samples, Value};

/// Returns the metrics as text.
pub(crate) fn write(samples: &Samples) -> Result<String, fmt::Error> {
    let mut text = String::new();
    for (name, family) in samples.families() {
        write_family(&mut text, name, family)?;
    }
    Ok(text)
}

fn write_family(text: &mut String, name: &str, family: &Family) -> fmt::Result {
    let (name, kind) = match family.kind {
        Kind::Counter => (format!("{name}_total"), "counter"),
        Kind::Gauge => (name.to_owned(), "gauge"),
        Kind::Histogram => (name.to_owned(), "histogram"),
    };
    let help = escape(family.metric.help);
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
    for (labels, value) in &family.series {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value).replace('"', "\\\"")))
            .collect();
        let labels = labels.join(",");
        match value {
            Value::Number(number) => writeln!(text, "{name}{} {number}", braces(&labels))?,
            Value::Buckets(buckets, sum) => {
                let mut count = 0;
                for (bound, more) in buckets {
                    count += more;
                    let gap = if labels.is_empty() { "" } else { "," };
                    let bound = match bound.is_finite() {
                        true => bound.to_string(),
                        false => "+Inf".to_owned(),
                    };
                    writeln!(text, "{name}_bucket{{{labels}{gap}le=\"{bound}\"}} {count}")?;
                }
                let labels = braces(&labels);
                writeln!(
                    text,
                    "{name}_sum{labels} {sum}\n{name}_count{labels} {count}"
                )?;
            }
        }
    }
    Ok(())
}

fn braces(labels: &str) -> String {
    match labels {
        "" => String::new(),
        labels => format!("{{{labels}}}"),
    }
}

/// Escapes what would end a line.
pub(crate) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}
