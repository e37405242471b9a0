//! The plot of a run as a self-contained SVG: successes of each second over time, and below them the
//! waits of these successes.
//!
//! Curves may lie on each other. The first one is drawn widest and the last one on top, so that each
//! stays visible.

use std::fmt::Write as _;

/// The seconds of a run.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A second of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) successes: f64,
    /// `None` without a success.
    pub(super) p99_ms: Option<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// The upper and the lower edge of each panel.
const UPPER: (f64, f64) = (64.0, 264.0);
const LOWER: (f64, f64) = (308.0, 508.0);
const COLOURS: [&str; 3] = ["#7a8794", "#0b6e99", "#d9480f"];
const LINE_WIDTHS: [f64; 3] = [6.0, 2.0, 2.0];

/// Returns the plot.
pub(super) fn svg(curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most = points().map(|point| point.successes).fold(1.0, f64::max);
    let seconds = curves.iter().map(|curve| curve.points.len()).max();
    let seconds = seconds.unwrap_or(1).max(1);
    let waits = || points().filter_map(|point| point.p99_ms);
    let successes = Panel {
        edges: UPPER,
        scale: Scale::linear(most),
        title: "successes of the healthy routes in each second",
    };
    let lengths = Panel {
        edges: LOWER,
        scale: Scale::powers(waits().fold(1.0, f64::min), waits().fold(1.0, f64::max)),
        title: "their p99 wait in milliseconds (each line is ten times the one below)",
    };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    legend(&mut text, curves);
    successes.draw(&mut text, seconds, curves, |point| Some(point.successes));
    lengths.draw(&mut text, seconds, curves, |point| point.p99_ms);
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = writeln!(
        text,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds</text>\n</svg>",
        HEIGHT - 12.0
    );
    text
}

/// Draws the names of the curves, each with its colour.
fn legend(text: &mut String, curves: &[Curve]) {
    let mut x = LEFT;
    for (index, curve) in curves.iter().enumerate() {
        let (colour, width) = look(index);
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"20\" x2=\"{:.1}\" y2=\"20\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/><text x=\"{:.1}\" y=\"24\">{}</text>",
            x + 24.0,
            x + 30.0,
            curve.name
        );
        x += 50.0 + 7.0 * curve.name.len() as f64;
    }
}

/// Returns the colour and the width of a curve.
fn look(index: usize) -> (&'static str, f64) {
    let at = index % COLOURS.len();
    (COLOURS[at], LINE_WIDTHS[at])
}

/// Where a value is between the lower edge (0) and the upper edge (1), and which values have a line.
struct Scale {
    lines: Vec<f64>,
    place: fn(f64) -> f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// From 0 to a round number above `most`, with a line at each round step.
    fn linear(most: f64) -> Self {
        let power = f64::powf(10.0, most.log10().floor());
        let steps = [0.2, 0.5, 1.0, 2.0].map(|part| part * power);
        let step = steps.into_iter().find(|step| most / step <= 5.0);
        let step = step.unwrap_or(2.0 * power).max(1.0);
        // A little room above the curve.
        let count = (most * 1.02 / step).ceil().max(1.0);
        Self {
            lines: (0..=count as u32).map(|at| step * f64::from(at)).collect(),
            place: |value| value,
            from: 0.0,
            to: step * count,
        }
    }

    /// From a power of ten to another one, with a line at each.
    fn powers(least: f64, most: f64) -> Self {
        let from = least.max(1e-6).log10().floor();
        let to = most.max(1e-6).log10().ceil().max(from + 1.0);
        Self {
            lines: (from as i32..=to as i32)
                .map(|power| f64::powi(10.0, power))
                .collect(),
            place: f64::log10,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        ((self.place)(value) - self.from) / (self.to - self.from)
    }
}

/// A part of the plot with its own scale.
struct Panel {
    edges: (f64, f64),
    scale: Scale,
    title: &'static str,
}

impl Panel {
    fn draw(
        &self,
        text: &mut String,
        seconds: usize,
        curves: &[Curve],
        value: fn(&Point) -> Option<f64>,
    ) {
        let (top, bottom) = self.edges;
        let _ = writeln!(
            text,
            "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            top - 10.0,
            self.title
        );
        let y = |value: f64| bottom - (bottom - top) * self.scale.at(value);
        for line in &self.scale.lines {
            grid(
                text,
                (LEFT, y(*line)),
                (WIDTH - RIGHT, y(*line)),
                &number(*line),
            );
        }
        let x = |second: f64| LEFT + (WIDTH - LEFT - RIGHT) * second / seconds as f64;
        let every = (seconds / 6).max(1);
        for second in (0..=seconds).step_by(every) {
            let at = x(second as f64);
            grid(text, (at, top), (at, bottom), &second.to_string());
        }
        for (index, curve) in curves.iter().enumerate() {
            let mut points = String::new();
            for (second, point) in curve.points.iter().enumerate() {
                if let Some(value) = value(point) {
                    // A second is drawn at its middle.
                    let _ = write!(points, "{:.1},{:.1} ", x(second as f64 + 0.5), y(value));
                }
            }
            let (colour, width) = look(index);
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
                points.trim_end()
            );
        }
    }
}

/// Draws a line of the grid, with its label left of a horizontal one and below a vertical one.
fn grid(text: &mut String, from: (f64, f64), to: (f64, f64), label: &str) {
    let (x, y, anchor) = match from.1 == to.1 {
        true => (from.0 - 8.0, from.1 + 4.0, "end"),
        false => (to.0, to.1 + 16.0, "middle"),
    };
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#d0d4d8\" \
         stroke-width=\"0.6\"/><text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
         fill=\"#444\">{label}</text>",
        from.0, from.1, to.0, to.1,
    );
}

/// Returns a round number as people write it.
fn number(value: f64) -> String {
    match value >= 1.0 || value == 0.0 {
        true => format!("{value:.0}"),
        false => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, Option<f64>)]) -> Curve {
        let points = points.iter().map(|(successes, p99_ms)| Point {
            successes: *successes,
            p99_ms: *p99_ms,
        });
        Curve {
            name: name.to_owned(),
            points: points.collect(),
        }
    }

    #[test]
    fn each_curve_has_its_name_and_a_line_in_both_panels() {
        let text = svg(&[
            curve("alone", &[(800.0, Some(1.5)); 3]),
            curve("with", &[(800.0, Some(2.0)), (0.0, None)]),
        ]);
        assert_eq!(text.matches("<polyline").count(), 4);
        assert!(text.contains(">alone<") && text.contains(">with<"));
        // Nothing at all is on the lower edge, and has no wait.
        assert!(text.contains(&format!(",{:.1}\"", UPPER.1)));
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn the_lines_are_at_round_numbers_and_include_all_values() {
        let linear = |most: f64| Scale::linear(most).lines;
        assert_eq!(linear(800.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(linear(3.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(linear(1.0), [0.0, 1.0, 2.0]);
        assert_eq!(Scale::powers(0.7, 31.0).lines, [0.1, 1.0, 10.0, 100.0]);
        let same = Scale::powers(1.0, 1.0);
        assert_eq!(same.lines, [1.0, 10.0]);
        assert!(same.at(1.0).abs() < 1e-9);
    }
}
