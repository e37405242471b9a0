//! What `tidegate bench` says, beside what wrk says: the same where both can know it, and more where a
//! closed loop hides it.

use super::delayed::{serve, stalling, steady};
use super::generator::{Found, Generator, Shape};
use crate::report::Quartiles;

/// By how much both may differ.
const CLOSE: f64 = 0.05;
/// The runs of each. They take turns, and a run is compared with the one beside it.
const RUNS: usize = 5;

/// The server takes 20 ms for each request, on a CPU of its own, so it decides the rate: 800 requests
/// per second. Neither generator is near its own limit. wrk looks only ten times a second whether its time
/// is over, so its runs are not short.
const CLOSED: Shape = Shape {
    connections: 16,
    rate: None,
    seconds: 3,
};
/// A thousand requests per second, whether the server responds or not.
const OPEN: Shape = Shape {
    connections: 300,
    rate: Some(1000),
    seconds: 5,
};

/// A figure that both generators find: its name, and how it is read.
type Figure = (&'static str, fn(&Found) -> f64);

const FIGURES: [Figure; 3] = [
    ("requests/s", |found| found.per_second),
    ("p50", |found| found.p50_ms),
    ("p99", |found| found.p99_ms),
];

/// Runs both checks. Prints a line for each, and returns an error if one fails.
pub(super) fn run() -> Result<(), String> {
    let (agrees, shows) = (agreement()?, stall()?);
    match agrees && shows {
        true => Ok(()),
        false => Err("a check does not hold".to_owned()),
    }
}

/// Compares both on a closed loop whose rate and times the server decides. Where a generator is the
/// limit, its own speed would be compared: that is `bench_over_wrk`.
fn agreement() -> Result<bool, String> {
    eprintln!("  tidegate bench and wrk on the same closed loop");
    let address = serve(steady);
    let mut pairs = Vec::new();
    for _ in 0..RUNS {
        let ours = Generator::Ours.run(address, CLOSED)?.0;
        pairs.push((ours, Generator::Wrk.run(address, CLOSED)?.0));
    }
    let ratios = FIGURES.map(|(name, value)| (name, ratio(&pairs, value)));
    let agrees = ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() <= CLOSE);
    let texts = ratios.map(|(name, ratio)| format!("{name} {ratio:.3}"));
    println!(
        "CHECK bench_agrees_with_wrk {}: {} times those of wrk",
        word(agrees),
        texts.join(", ")
    );
    Ok(agrees)
}

/// Returns the median of ours divided by that of wrk.
fn ratio(pairs: &[(Found, Found)], value: fn(&Found) -> f64) -> f64 {
    let ratios = pairs.iter().map(|(ours, wrk)| value(ours) / value(wrk));
    Quartiles::of(ratios).map_or(f64::NAN, |all| all.median)
}

/// Loads a server that stops for 200 ms each second. A fifth of the requests is due while it stops,
/// but in a closed loop only one of each connection is sent then. wrk 4.1 adds what its closed loop
/// omits to its percentiles, as ours does; the times alone hide the stall.
fn stall() -> Result<bool, String> {
    eprintln!("  a server that stops for 200 ms each second");
    let address = serve(stalling);
    let (open, _) = Generator::Ours.run(address, OPEN)?;
    // Two requests of each second wait: too few for a percentile.
    let closed = Shape {
        connections: 2,
        seconds: OPEN.seconds,
        ..CLOSED
    };
    let (ours, _) = Generator::Ours.run(address, closed)?;
    let (wrk, _) = Generator::Wrk.run(address, closed)?;
    let hidden = ours.raw_p99_ms.unwrap_or(f64::NAN);
    let shows = open.p99_ms >= 150.0 && hidden < open.p99_ms / 4.0;
    println!(
        "CHECK bench_shows_stall {}: p99 {:.0} ms at a rate, and {hidden:.1} ms by the times of a \
         closed loop; corrected: {:.0} ms, wrk {:.0} ms",
        word(shows),
        open.p99_ms,
        ours.p99_ms,
        wrk.p99_ms
    );
    Ok(shows)
}

fn word(holds: bool) -> &'static str {
    if holds { "holds" } else { "BROKEN" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_pair_in_the_middle() {
        let found = |per_second| Found {
            requests: 1.0,
            per_second,
            p50_ms: 1.0,
            p99_ms: 2.0,
            raw_p99_ms: None,
        };
        // One run of wrk was disturbed.
        let pairs = [(800.0, 800.0), (790.0, 400.0), (700.0, 700.0)];
        let pairs = pairs.map(|(ours, wrk)| (found(ours), found(wrk)));
        assert_eq!(ratio(&pairs, |found| found.per_second), 1.0);
        assert!(ratio(&[], |found| found.p50_ms).is_nan());
    }
}
