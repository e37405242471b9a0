//! A strict reader of both text formats. It refuses what Prometheus or the standard of OpenMetrics
//! refuses.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Which format a text is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Plain,
}

/// The values of a text, each under its name and its labels. The label `le` comes last, as a plain
/// number.
pub(crate) type Values = HashMap<String, f64>;

#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    /// Label sets without `le`, with the buckets, the sum and the count of each.
    histograms: BTreeMap<String, Histogram>,
}

#[derive(Default)]
struct Histogram {
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Reads a whole text.
pub(crate) fn parse(text: &str, format: Format) -> Result<Values, String> {
    let body = match format {
        Format::Plain => text,
        Format::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("no end mark")?,
    };
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut values = Values::new();
    let mut names = HashSet::new();
    let mut family = Family::default();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            finish(&family)?;
            let (name, text) = help.split_once(' ').ok_or(wrong("no help text"))?;
            if text.trim().is_empty() || !names.insert(name.to_owned()) {
                return Err(wrong("empty help text, or a second one"));
            }
            let next = lines.next().unwrap_or_default();
            let kind = next.strip_prefix(&format!("# TYPE {name} "));
            let kind = kind.ok_or(wrong("no type after it"))?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(wrong("an unknown type"));
            }
            family = Family {
                name: name.to_owned(),
                kind: kind.to_owned(),
                ..Family::default()
            };
            if let Some(unit) = lines.peek().and_then(|next| next.strip_prefix("# UNIT ")) {
                let (of, unit) = unit.split_once(' ').ok_or(wrong("no unit"))?;
                if format == Format::Plain || of != name || !name.ends_with(&format!("_{unit}")) {
                    return Err(wrong("the name does not end with the unit"));
                }
                lines.next();
            }
        } else {
            let (series, value) = line.rsplit_once(' ').ok_or(wrong("no value"))?;
            let number: f64 = value.parse().map_err(|_| wrong("not a number"))?;
            let (name, labels) = split_series(series).ok_or(wrong("labels"))?;
            sample(&mut family, format, (name, &labels), number).map_err(|why| wrong(&why))?;
            if values.insert(key_of(name, &labels), number).is_some() {
                return Err(wrong("a second time"));
            }
        }
    }
    finish(&family)?;
    Ok(values)
}

/// Checks a line of values against its family.
fn sample(
    family: &mut Family,
    format: Format,
    (name, labels): (&str, &[(String, String)]),
    number: f64,
) -> Result<(), String> {
    if !number.is_finite() {
        return Err("not finite".to_owned());
    }
    let ending = name
        .strip_prefix(&family.name)
        .ok_or("it belongs to another metric")?;
    let total = match format {
        Format::OpenMetrics => ending == "_total",
        Format::Plain => ending.is_empty() && name.ends_with("_total"),
    };
    match family.kind.as_str() {
        "counter" if total && number >= 0.0 => Ok(()),
        "gauge" if ending.is_empty() && !name.ends_with("_total") => Ok(()),
        "histogram" => histogram_line(family, ending, labels, number),
        kind => Err(format!("not a line of a {kind}")),
    }
}

fn histogram_line(
    family: &mut Family,
    ending: &str,
    labels: &[(String, String)],
    number: f64,
) -> Result<(), String> {
    let (le, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| name == "le");
    let histogram = family.histograms.entry(format!("{others:?}")).or_default();
    match (ending, le.as_slice()) {
        ("_bucket", [(_, bound)]) => {
            let bound = match bound.as_str() {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().map_err(|_| "a bound is not a number")?,
            };
            histogram.buckets.push((bound, number));
        }
        ("_sum", []) => histogram.sum = Some(number),
        ("_count", []) => histogram.count = Some(number),
        _ => return Err("not a line of a histogram".to_owned()),
    }
    Ok(())
}

/// Checks that the histograms of a family are complete and cumulative.
fn finish(family: &Family) -> Result<(), String> {
    for (labels, histogram) in &family.histograms {
        let wrong = |why: &str| Err(format!("{} {labels}: {why}", family.name));
        let buckets = &histogram.buckets;
        let ascends = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if !buckets.windows(2).all(ascends) {
            return wrong("bounds or counts do not ascend");
        }
        match (buckets.last(), histogram.count) {
            (Some((f64::INFINITY, last)), Some(count)) if *last == count => {}
            _ => return wrong("the last bucket is not infinite, or differs from the count"),
        }
        if histogram.sum.is_none() {
            return wrong("no sum");
        }
    }
    Ok(())
}

/// Returns a name with its labels in one form, however they were written.
fn key_of(name: &str, labels: &[(String, String)]) -> String {
    let (le, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| name == "le");
    let others = others
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"));
    let le = le.iter().map(|(_, bound)| match bound.parse::<f64>() {
        Ok(bound) => format!("le=\"{bound}\""),
        Err(_) => format!("le={bound:?}"),
    });
    let labels: Vec<_> = others.chain(le).collect();
    match labels.is_empty() {
        true => name.to_owned(),
        false => format!("{name}{{{}}}", labels.join(",")),
    }
}

/// Splits `name{label="value",…}`.
fn split_series(series: &str) -> Option<(&str, Vec<(String, String)>)> {
    let Some((name, rest)) = series.split_once('{') else {
        return is_name(series).then(|| (series, Vec::new()));
    };
    let mut rest = rest.strip_suffix('}')?;
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        if !is_name(label) || labels.iter().any(|(known, _)| known == label) {
            return None;
        }
        labels.push((label.to_owned(), value));
        rest = match after.strip_prefix(',') {
            Some("") => return None,
            Some(more) => more,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    is_name(name).then_some((name, labels))
}

/// Reads a value up to its closing quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                _ => return None,
            }),
            char => value.push(char),
        }
    }
    None
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(is_part) && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[test]
fn refuses_what_prometheus_refuses() {
    let good = "# HELP a_seconds Text.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                a_seconds_total{x=\"1\"} 2\n# EOF\n";
    assert!(parse(good, Format::OpenMetrics).is_ok());
    for (from, to) in [
        ("# EOF\n", ""),
        ("_total", ""),
        (" 2\n", " two\n"),
        (" 2\n", " -2\n"),
        ("x=\"1\"", "x=\"1"),
        ("x=\"1\"", "x=\"1\",x=\"2\""),
        ("Text.", ""),
        ("# UNIT a_seconds seconds", "# UNIT a_seconds bytes"),
        ("# EOF", "a_seconds_total{x=\"1\"} 2\n# EOF"),
        (
            "# EOF",
            "# HELP a_seconds Text.\n# TYPE a_seconds counter\n# EOF",
        ),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(parse(&bad, Format::OpenMetrics).is_err(), "{bad}");
    }
}
