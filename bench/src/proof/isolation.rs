//! Four upstreams: one hangs, one fails half of the time. The healthy routes keep what they get alone.
//!
//! Three runs: the healthy routes alone; all four with bulkheads, timeouts and breakers; all four
//! without. Without them, requests to the upstream that hangs pile up until the gateway has no
//! descriptors left, and then no client can connect.
//!
//! Waits are compared over all seconds of two runs. If a hypervisor took CPU time away meanwhile, they
//! are compared over the other seconds, provided that these are at least half of each run: a CPU that
//! is away for 20 ms delays every request of that moment, and at 1 % of the time decides the p99.

use tidegate_gateway::internal::Counts;

use super::open_loop::{self, Outcome, Stream};
use super::program::Program;
use super::upstreams::{self, Kind};
use super::{Finding, Findings, Proof};

/// The descriptors of the gateway: enough for all clients, and not for as many upstream connections.
const DESCRIPTORS: u64 = 1000;
/// What healthy routes keep of their throughput, and by what factor their waits may grow.
const KEPT: f64 = 0.95;
const SLOWER: f64 = 2.0;

const HEALTHY: [Stream; 2] = [stream("/a", 400.0, 50), stream("/b", 400.0, 50)];
const ALL: [Stream; 4] = [
    HEALTHY[0],
    HEALTHY[1],
    stream("/hangs", 300.0, 600),
    stream("/half", 300.0, 50),
];

const fn stream(path: &'static str, rate: f64, connections: usize) -> Stream {
    Stream {
        path,
        rate,
        connections,
    }
}

/// What the healthy routes got in a run.
struct Got {
    /// Successes per second.
    rate: f64,
    /// In nanoseconds.
    p99: f64,
    /// The same over the undisturbed seconds.
    undisturbed_p99: f64,
    /// The number of undisturbed seconds, and of all.
    undisturbed: usize,
    seconds: usize,
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
        let outcome = open_loop::run(gateway.address, streams, proof.time())?;
        report(name, streams, &outcome);
        Ok::<Got, String>(got(&outcome))
    };
    let alone = measure("alone", guarded, &HEALTHY)?;
    let with = measure("with bulkheads", guarded, &ALL)?;
    let without = measure("without bulkheads", bare, &ALL)?;
    let (kept, slower, line) = compare("with bulkheads", &with, &alone);
    let holds = Finding::new(kept >= KEPT && slower <= SLOWER, line);
    let (kept, slower, line) = compare("without bulkheads", &without, &alone);
    let collapses = Finding::new(kept < KEPT || slower > SLOWER, line);
    Ok(vec![holds, collapses])
}

/// Returns which part of their throughput the healthy routes kept, by what factor their waits grew,
/// and the line that says so.
fn compare(name: &str, got: &Got, alone: &Got) -> (f64, f64, String) {
    let (kept, slower) = (got.rate / alone.rate, got.p99 / alone.p99);
    let mut line = format!(
        "{name}, healthy routes keep {:.1} % of their throughput, p99 {:.2} ms is {slower:.2} times that alone",
        100.0 * kept,
        got.p99 / 1e6,
    );
    let seconds = got.seconds;
    let least = got.undisturbed.min(alone.undisturbed);
    if least == seconds || least * 2 < seconds {
        return (kept, slower, line);
    }
    let slower = got.undisturbed_p99 / alone.undisturbed_p99;
    line += &format!(
        "; over the {} and {} of {seconds} s without stolen CPU time, {:.2} ms is {slower:.2} times that alone",
        got.undisturbed,
        alone.undisturbed,
        got.undisturbed_p99 / 1e6,
    );
    (kept, slower, line)
}

/// Returns what the healthy routes got.
fn got(outcome: &Outcome) -> Got {
    let p99 = |wanted: &dyn Fn(usize) -> bool| {
        let mut all = Counts::default();
        let seconds = outcome.seconds.iter().enumerate();
        for (_, streams) in seconds.filter(|(at, _)| wanted(*at)) {
            streams[..HEALTHY.len()].iter().for_each(|one| all.add(one));
        }
        (all.response.value_at_percentile(99.0) as f64, all)
    };
    let seconds = outcome.seconds.len();
    let (all_p99, all) = p99(&|_| true);
    Got {
        rate: (all.good + all.slow) as f64 / seconds as f64,
        p99: all_p99,
        undisturbed_p99: p99(&|at| outcome.undisturbed[at]).0,
        undisturbed: outcome.undisturbed.iter().filter(|one| **one).count(),
        seconds,
    }
}

/// Prints what became of the requests of a run.
fn report(name: &str, streams: &[Stream], outcome: &Outcome) {
    println!("isolation, {name}");
    println!("  route         ok  refused   failed   p50 ms   p99 ms");
    for (at, stream) in streams.iter().enumerate() {
        let mut all = Counts::default();
        outcome.seconds.iter().for_each(|one| all.add(&one[at]));
        let millis = |percent| all.response.value_at_percentile(percent) as f64 / 1e6;
        println!(
            "  {:7} {:>8} {:>8} {:>8} {:>8.2} {:>8.2}",
            stream.path,
            all.good + all.slow,
            all.refused,
            all.failed(),
            millis(50.0),
            millis(99.0),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Got, compare};

    fn got(p99: f64, undisturbed_p99: f64, undisturbed: usize) -> Got {
        Got {
            rate: 800.0,
            p99,
            undisturbed_p99,
            undisturbed,
            seconds: 10,
        }
    }

    #[test]
    fn waits_are_compared_over_all_seconds_of_an_undisturbed_machine() {
        let (_, slower, _) = compare("with", &got(30.0, 30.0, 10), &got(10.0, 10.0, 10));
        assert_eq!(slower, 3.0);
    }

    #[test]
    fn seconds_with_stolen_time_do_not_count_if_half_of_them_remain() {
        let (_, slower, line) = compare("with", &got(90.0, 30.0, 5), &got(10.0, 20.0, 9));
        assert_eq!(slower, 1.5);
        assert!(
            line.contains("9.00 times") && line.contains("1.50 times"),
            "{line}"
        );
        let (_, slower, _) = compare("with", &got(90.0, 30.0, 4), &got(10.0, 20.0, 9));
        assert_eq!(slower, 9.0);
    }
}
