//! A plot of ratios over the size of a task, as an SVG without anything around it.

use std::fmt::Write as _;

/// One line of the plot.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Its name.
    pub(crate) name: String,
    /// Microseconds of work, and the ratio there.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 4] = ["#0b6e99", "#d9730d", "#0f7b6c", "#6940a5"];

/// The plot: work per task across (logarithmic), adaptive over PEC upwards.
pub(crate) fn svg(curves: &[Curve]) -> String {
    let all = curves.iter().flat_map(|curve| &curve.points);
    let top = all.clone().map(|point| point.1).fold(2.0, f64::max).ceil();
    let right = all.map(|point| point.0).fold(1.0, f64::max);
    let x =
        |micros: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (1.0 + micros).ln() / (1.0 + right).ln();
    let y = |ratio: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * ratio / top;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">adaptive over PEC, tasks per second, equal threads</text>\n"
    );
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a String cannot fail");
    for step in 0..=top as u32 {
        let (at, ratio) = (y(f64::from(step)), step);
        let width = if ratio == 1 { 1.5 } else { 0.4 };
        add(format!(
            "<line x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#555\" stroke-width=\"{width}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ratio}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            at + 4.0
        ));
    }
    let mut ticks: Vec<f64> = curves.iter().flat_map(|c| &c.points).map(|p| p.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for micros in ticks {
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{micros} µs</text>",
            x(micros),
            HEIGHT - MARGIN + 18.0
        ));
    }
    for (place, curve) in curves.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        add(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            WIDTH - MARGIN - 70.0,
            MARGIN + 16.0 + 16.0 * place as f64,
            curve.name
        ));
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_drawn_inside_the_frame() {
        let curve = |name: &str, points: &[(f64, f64)]| Curve {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let text = svg(&[
            curve("depth 1", &[(0.0, 7.4), (200.0, 1.1)]),
            curve("depth 64", &[(0.0, 0.6), (200.0, 1.0)]),
        ]);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(svg(&[]).contains("</svg>"));
    }
}
