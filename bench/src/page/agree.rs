//! What `tidegate bench` says, beside what wrk says: the same where both can know it, and more where a
//! closed loop hides it.

use super::delayed::{serve, stalling, steady};
use super::generator::{Found, Generator, Shape};
use crate::report::Quartiles;

/// By how much both may differ.
const CLOSE: f64 = 0.05;
/// The runs of each.
const RUNS: usize = 5;

const CLOSED: Shape = Shape {
    connections: 16,
    rate: None,
    seconds: 2,
};
/// A thousand requests per second, whether the server responds or not.
const OPEN: Shape = Shape {
    connections: 300,
    rate: Some(1000),
    seconds: 5,
};

/// Runs both checks. Prints a line for each, and returns an error if one fails.
pub(super) fn run() -> Result<(), String> {
    let (agrees, shows) = (agreement()?, stall()?);
    match agrees && shows {
        true => Ok(()),
        false => Err("a check does not hold".to_owned()),
    }
}

/// Compares both on a closed loop whose rate the server decides: 16 connections, 10 ms each.
fn agreement() -> Result<bool, String> {
    eprintln!("  tidegate bench and wrk on the same closed loop");
    let address = serve(steady);
    let (mut ours, mut wrk) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(Generator::Ours.run(address, CLOSED)?.0);
        wrk.push(Generator::Wrk.run(address, CLOSED)?.0);
    }
    let ratio = |value: fn(&Found) -> f64| median(&ours, value) / median(&wrk, value);
    let (rate, p50) = (ratio(|found| found.per_second), ratio(|found| found.p50_ms));
    let agrees = [rate, p50].iter().all(|ratio| (ratio - 1.0).abs() <= CLOSE);
    println!(
        "CHECK bench_agrees_with_wrk {}: requests/s {rate:.3}, p50 {p50:.3} times those of wrk",
        word(agrees)
    );
    Ok(agrees)
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

fn median(found: &[Found], value: fn(&Found) -> f64) -> f64 {
    let quartiles = Quartiles::of(found.iter().map(value));
    quartiles.map_or(f64::NAN, |all| all.median)
}

fn word(holds: bool) -> &'static str {
    if holds { "holds" } else { "BROKEN" }
}
