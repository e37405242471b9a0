//! The result of a run as a picture in SVG: times by percentile, and requests over time.

use std::fmt::Write as _;

use super::result::RunResult;
use super::summary::time;
use super::tally::Histogram;

/// The size of a diagram.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
/// The space left of a diagram, and above it.
const LEFT: f64 = 80.0;
const ABOVE: f64 = 50.0;
/// The last percentile of the axis has so many nines.
const NINES: f64 = 4.0;

/// A line of a diagram.
struct Line {
    name: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// A diagram. The axes begin at 0.
struct Diagram {
    title: &'static str,
    /// The texts below, each at a share of the width.
    below: Vec<(f64, String)>,
    /// The text of a value on the left.
    left: fn(f64) -> String,
    right: f64,
    lines: Vec<Line>,
}

/// Returns the picture.
pub(crate) fn plot(result: &RunResult) -> String {
    let height = 2.0 * (HEIGHT + ABOVE) + 60.0;
    let width = LEFT + WIDTH + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(&result.url)
    );
    draw(&mut svg, &percentiles(result), ABOVE);
    draw(&mut svg, &over_time(result), 2.0 * ABOVE + HEIGHT + 20.0);
    svg.push_str("</svg>\n");
    svg
}

/// Returns the times by percentile. The axis shows each further nine with the same width.
fn percentiles(result: &RunResult) -> Diagram {
    let line = |name, colour, times: &Histogram| Line {
        name,
        colour,
        points: (0..=200)
            .map(|step| {
                let nines = NINES * f64::from(step) / 200.0;
                let percent = 100.0 - 100.0 * 10f64.powf(-nines);
                (nines, times.value_at_percentile(percent) as f64)
            })
            .collect(),
    };
    let names = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"];
    let at = |at: usize| at as f64 / NINES;
    Diagram {
        title: "response time by percentile",
        below: names
            .iter()
            .enumerate()
            .map(|(n, name)| (at(n), (*name).to_owned()))
            .collect(),
        left: |nanos| time(nanos as u64),
        right: NINES,
        lines: vec![
            line(
                "corrected for coordinated omission",
                "#c03030",
                &result.response(),
            ),
            line("from sending", "#3060c0", &result.tally.service),
        ],
    }
}

/// Returns the requests over time.
fn over_time(result: &RunResult) -> Diagram {
    let samples = &result.samples;
    let right = samples.last().map_or(1.0, |last| last.at);
    let mut lines = vec![
        Line {
            name: "ended",
            colour: "#3060c0",
            points: samples.iter().map(|one| (one.at, one.requests)).collect(),
        },
        Line {
            name: "good",
            colour: "#308030",
            points: samples.iter().map(|one| (one.at, one.good)).collect(),
        },
    ];
    let planned = samples.iter().filter_map(|one| Some((one.at, one.rate?)));
    let points: Vec<_> = planned.collect();
    if !points.is_empty() {
        lines.push(Line {
            name: "planned",
            colour: "#888888",
            points,
        });
    }
    let below = [0.0, 0.25, 0.5, 0.75, 1.0];
    Diagram {
        title: "requests per second over time",
        below: below
            .map(|share| (share, format!("{:.1} s", right * share)))
            .into(),
        left: |value| format!("{value:.0}/s"),
        right,
        lines,
    }
}

fn draw(svg: &mut String, diagram: &Diagram, top: f64) {
    let all = diagram.lines.iter().flat_map(|line| &line.points);
    let highest = all.map(|point| point.1).fold(1.0, f64::max);
    let x = |value: f64| LEFT + WIDTH * value / diagram.right.max(1e-9);
    let y = |value: f64| top + HEIGHT * (1.0 - value / highest);
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">{}</text>",
        top - 10.0,
        diagram.title
    );
    for step in 0..=4 {
        let value = highest * f64::from(step) / 4.0;
        let (at, text) = (y(value), (diagram.left)(value));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}h{WIDTH}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (share, text) in &diagram.below {
        let (at, below) = (LEFT + WIDTH * share, top + HEIGHT + 16.0);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{text}</text>"
        );
    }
    for (at, line) in diagram.lines.iter().enumerate() {
        let points = line
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)));
        let points: Vec<String> = points.collect();
        let (colour, right) = (line.colour, LEFT + WIDTH - 190.0 * at as f64);
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>\
             <text x=\"{right}\" y=\"{}\" fill=\"{colour}\" text-anchor=\"end\">{}</text>",
            points.join(" "),
            top - 10.0,
            line.name
        );
    }
}

/// Returns a text of SVG.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
