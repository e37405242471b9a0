//! The plot of a run as a self-contained SVG: successes of each second, over time.

use std::fmt::Write as _;

/// The successes of each second of a run.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<f64>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 3] = ["#0b6e99", "#0f7b6c", "#d9730d"];

/// Returns the plot.
pub(super) fn svg(curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let top = all().fold(1.0, f64::max) * 1.1;
    let right = curves.iter().map(|curve| curve.points.len()).max();
    let right = right.unwrap_or(1).max(2) as f64 - 1.0;
    let x = |second: usize| MARGIN + (WIDTH - 2.0 * MARGIN) * second as f64 / right;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * value / top;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">successes of the healthy routes, each second</text>\n"
    );
    for share in 0..=4 {
        let value = top * f64::from(share) / 4.0;
        let at = y(value);
        let _ = writeln!(
            text,
            "<line x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#555\" \
             stroke-width=\"0.4\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            at + 4.0,
        );
    }
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let mut points = String::new();
        for (second, value) in curve.points.iter().enumerate() {
            let _ = write!(points, "{:.1},{:.1} ", x(second), y(*value));
        }
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.trim_end()
        );
    }
    for (line, (curve, colour)) in curves.iter().zip(COLOURS).enumerate() {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            MARGIN + 180.0 * line as f64,
            HEIGHT - 20.0,
            curve.name
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_its_points_and_its_name() {
        let curve = |name: &str, points: &[f64]| Curve {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let text = svg(&[
            curve("alone", &[10.0, 10.0, 10.0]),
            curve("with", &[10.0, 0.0]),
        ]);
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains(">alone<") && text.contains(">with<"));
        // The lowest point is on the axis, the highest is below the title.
        assert!(text.contains(&format!(",{:.1}", HEIGHT - MARGIN)));
    }
}
