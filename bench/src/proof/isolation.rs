//! Four upstreams: one hangs, one fails half of the time. The healthy routes keep what they get alone.
//!
//! Three runs: the healthy routes alone; all four with bulkheads, timeouts and breakers; all four
//! without. Without them, requests to the upstream that hangs pile up until the gateway has no
//! descriptors left, and then nobody can connect.

use super::open_loop::{self, Result as Streamed, Stream};
use super::plot::{self, Curve, Point};
use super::program::Program;
use super::upstreams::{self, Kind};
use super::{Finding, Findings, Proof};
use crate::waits::Waits;

/// The descriptors of the gateway.
const DESCRIPTORS: u64 = 800;
/// What healthy routes keep of their throughput, and by what factor their waits may grow.
const KEPT: f64 = 0.95;
const SLOWER: f64 = 2.0;

const HEALTHY: [Stream; 2] = [stream("/a", 400.0), stream("/b", 400.0)];
const ALL: [Stream; 4] = [
    HEALTHY[0],
    HEALTHY[1],
    stream("/hangs", 300.0),
    stream("/half", 300.0),
];

const fn stream(path: &'static str, rate: f64) -> Stream {
    Stream { path, rate }
}

/// What the healthy routes got in a run.
struct Got {
    /// Successes per second.
    rate: f64,
    /// In nanoseconds.
    p99: f64,
    curve: Curve,
}

pub(super) fn run(proof: &Proof) -> Findings {
    let servers = [Kind::Healthy, Kind::Healthy, Kind::Hangs, Kind::Half].map(upstreams::start);
    let guarded = "limit = 20\ntimeout = \"500ms\"\nbreaker = { volume = 20, window = \"5s\", sleep = \"1s\" }";
    let bare = "limit = 1000000\ntimeout = false\nbreaker = false";
    let sections = |command: &str| {
        let names = ["a", "b", "hangs", "half"];
        let section = |(name, server): (&str, &std::net::SocketAddr)| {
            format!(
                "[upstream.{name}]\nservers = [\"{server}\"]\n\
                 [route.{name}]\npath = \"/{name}\"\nupstream = \"{name}\"\n{command}\n"
            )
        };
        names
            .into_iter()
            .zip(&servers)
            .map(section)
            .collect::<String>()
    };
    let measure = |name: &str, command: &str, streams: &[Stream]| {
        let gateway = Program::start(name, &sections(command), DESCRIPTORS)?;
        let results = open_loop::run(gateway.address, streams, proof.time());
        let results = results.map_err(|why| why.to_string())?;
        report(name, streams, &results);
        Ok::<Got, String>(got(name, &results, proof.seconds))
    };
    let alone = measure("alone", guarded, &HEALTHY)?;
    let with = measure("with bulkheads", guarded, &ALL)?;
    let without = measure("without bulkheads", bare, &ALL)?;
    if let Some(path) = &proof.plot {
        let curves = [&alone, &with, &without].map(|got| got.curve.clone());
        let wrote = std::fs::write(path, plot::svg(&curves));
        wrote.map_err(|why| format!("{path}: {why}"))?;
    }
    let compare = |name: &str, got: &Got| {
        let (kept, slower) = (got.rate / alone.rate, got.p99 / alone.p99);
        let line = format!(
            "{name}, healthy routes keep {:.1} % of their throughput, p99 {:.2} ms is {slower:.2} times that alone",
            100.0 * kept,
            got.p99 / 1e6,
        );
        (kept, slower, line)
    };
    let (kept, slower, line) = compare("with bulkheads", &with);
    let holds = Finding::new(kept >= KEPT && slower <= SLOWER, line);
    let (kept, slower, line) = compare("without bulkheads", &without);
    let collapses = Finding::new(kept < KEPT || slower > SLOWER, line);
    Ok(vec![holds, collapses])
}

/// Returns what the healthy routes got.
fn got(name: &str, results: &[Streamed], seconds: u64) -> Got {
    let healthy = &results[..HEALTHY.len()];
    let mut waits = Waits::new();
    healthy.iter().for_each(|one| waits.add_all(&one.waits()));
    let second = |at: usize| {
        let mut second = Waits::new();
        healthy
            .iter()
            .for_each(|one| second.add_all(&one.seconds[at]));
        Point {
            successes: second.len() as f64,
            p99_ms: Some(second.at(0.99) / 1e6).filter(|wait| wait.is_finite()),
        }
    };
    let ok: u64 = healthy.iter().map(|one| one.ok).sum();
    Got {
        rate: ok as f64 / seconds as f64,
        p99: waits.at(0.99),
        curve: Curve {
            name: name.to_owned(),
            points: (0..healthy[0].seconds.len()).map(second).collect(),
        },
    }
}

/// Prints what became of the requests of a run.
fn report(name: &str, streams: &[Stream], results: &[Streamed]) {
    println!("isolation, {name}");
    println!("  route         ok  refused   failed     lost   p50 ms   p99 ms");
    for (stream, result) in streams.iter().zip(results) {
        let waits = result.waits();
        println!(
            "  {:7} {:>8} {:>8} {:>8} {:>8} {:>8.2} {:>8.2}",
            stream.path,
            result.ok,
            result.refused,
            result.failed,
            result.lost,
            waits.at(0.5) / 1e6,
            waits.at(0.99) / 1e6,
        );
    }
}
