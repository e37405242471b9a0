//! The plot as a self-contained SVG: ratios over the size of a task, and below them the waits of
//! messages over sockets.

use std::fmt::Write as _;

/// One curve of the plot.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Its name.
    pub(crate) name: String,
    /// Points: microseconds of work, and the ratio.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Waits under one load, one bar for each strategy.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    /// The load.
    pub(crate) title: String,
    /// The strategy, and its wait in microseconds.
    pub(crate) bars: Vec<(String, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 6] = [
    "#0b6e99", "#d9730d", "#0f7b6c", "#6940a5", "#ad1a72", "#64473a",
];

/// Height of a bar's line, and of a load's title.
const LINE: f64 = 15.0;
const TITLE: f64 = 30.0;
/// Horizontal start of the bars; their names are to the left.
const BARS: f64 = 150.0;

/// Returns the whole plot; parts without data are left out.
pub(crate) fn svg(curves: &[Curve], bars: &[Bars]) -> String {
    let ratios = if curves.is_empty() { 0.0 } else { HEIGHT };
    let waits = height(bars);
    let all = (ratios + waits).max(LINE);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {all}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    if !curves.is_empty() {
        draw_ratios(&mut text, curves);
    }
    if !bars.is_empty() {
        draw_waits(&mut text, bars, ratios);
    }
    text.push_str("</svg>\n");
    text
}

fn add(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}

/// Draws the ratio of adaptive to PEC (vertical) over the work per task (horizontal, logarithmic).
fn draw_ratios(text: &mut String, curves: &[Curve]) {
    let all = curves.iter().flat_map(|curve| &curve.points);
    let top = all.clone().map(|point| point.1).fold(2.0, f64::max).ceil();
    let right = all.map(|point| point.0).fold(1.0, f64::max);
    let x =
        |micros: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (1.0 + micros).ln() / (1.0 + right).ln();
    let y = |ratio: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * ratio / top;
    add(
        text,
        &format!(
            "<text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">adaptive over PEC, tasks per second, equal threads</text>"
        ),
    );
    for step in 0..=top as u32 {
        let (at, ratio) = (y(f64::from(step)), step);
        let width = if ratio == 1 { 1.5 } else { 0.4 };
        let line = format!(
            "<line x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#555\" stroke-width=\"{width}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ratio}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            at + 4.0
        );
        add(text, &line);
    }
    let mut ticks: Vec<f64> = curves.iter().flat_map(|c| &c.points).map(|p| p.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for micros in ticks {
        let line = format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{micros} µs</text>",
            x(micros),
            HEIGHT - MARGIN + 18.0
        );
        add(text, &line);
    }
    for (place, curve) in curves.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let line = format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            WIDTH - MARGIN - 70.0,
            MARGIN + 16.0 + 16.0 * place as f64,
            curve.name
        );
        add(text, &line);
    }
}

fn height(bars: &[Bars]) -> f64 {
    let one = |load: &Bars| TITLE + LINE * load.bars.len() as f64;
    let all: f64 = bars.iter().map(one).sum();
    if bars.is_empty() {
        0.0
    } else {
        all + 2.0 * TITLE
    }
}

/// Draws a group of bars for each load, with logarithmic lengths and the figure after each bar.
fn draw_waits(text: &mut String, loads: &[Bars], top: f64) {
    let all = loads.iter().flat_map(|load| &load.bars).map(|bar| bar.1);
    let longest = all.fold(10.0, f64::max);
    let length = |micros: f64| {
        let room = WIDTH - MARGIN - BARS - 60.0;
        (room * (1.0 + micros).ln() / (1.0 + longest).ln()).max(1.0)
    };
    let mut y = top + TITLE;
    add(
        text,
        &format!(
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"14\">messages over sockets, p99 in µs from due to answered, logarithmic</text>",
            y - 6.0
        ),
    );
    for load in loads {
        y += TITLE;
        let title = format!(
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
            y - 8.0,
            load.title
        );
        add(text, &title);
        for (place, (name, micros)) in load.bars.iter().enumerate() {
            let colour = COLOURS[place % COLOURS.len()];
            let line = format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
                 <rect x=\"{BARS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{micros:.0}</text>",
                BARS - 6.0,
                y + LINE - 5.0,
                y + 2.0,
                length(*micros),
                LINE - 4.0,
                BARS + length(*micros) + 6.0,
                y + LINE - 5.0,
            );
            add(text, &line);
            y += LINE;
        }
    }
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
        let curves = [
            curve("depth 1", &[(0.0, 7.4), (200.0, 1.1)]),
            curve("depth 64", &[(0.0, 0.6), (200.0, 1.0)]),
        ];
        let text = svg(&curves, &[]);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(svg(&[], &[]).contains("</svg>"));
    }

    #[test]
    fn every_bar_is_drawn_inside_the_frame_and_below_the_curves() {
        let load = Bars {
            title: "64 bytes".to_owned(),
            bars: vec![("PC".to_owned(), 10_400.0), ("PEC".to_owned(), 31.0)],
        };
        let curve = Curve {
            name: "depth 1".to_owned(),
            points: vec![(0.0, 1.0), (2.0, 2.0)],
        };
        let text = svg(&[curve], &[load.clone(), load.clone()]);
        let frame = HEIGHT + height(&[load.clone(), load.clone()]);
        let places = |what: &str| -> Vec<f64> {
            let before = format!("{what}=\"");
            let parts = text.split(before.as_str()).skip(1);
            let number = |part: &str| part.split('"').next()?.parse().ok();
            parts.filter_map(number).collect()
        };
        assert_eq!(text.matches("<rect x").count(), 4);
        assert!(places(" y").iter().all(|y| *y <= frame), "{text}");
        let bars = places("<rect x").into_iter().zip(places(" width"));
        assert!(bars.into_iter().all(|(x, width)| x + width <= WIDTH));
        assert!(!text.contains("NaN") && svg(&[], &[load]).contains("10400"));
    }
}
