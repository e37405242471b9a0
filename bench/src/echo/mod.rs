//! Suite `echo`: messages to a server and back, over TCP on one machine; and the cost of idle
//! connections.
//!
//! The server runs on CPU 0 and our load generator, which is as busy as the server, on CPU 1. The
//! compared figure is therefore the server's CPU time per message; messages per second are shown
//! beside it. The load is a closed loop: each connection waits for its reply before it sends the
//! next message. System calls take most of that time. `cargo xtask cost echo` counts the
//! instructions per message outside of system calls: `docs/metrics-cost.md`.

pub(crate) mod idle;
mod servers;

use std::time::Duration;

pub(crate) use self::idle::child as idle_child;
use self::servers::Kind;
pub(crate) use self::servers::raw_epoll as raw_echo;
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::Running;

/// Bytes in a message.
pub(crate) const MESSAGE: usize = 64;

/// The servers by their names on the command line.
const SERVERS: [(&str, Kind); 8] = [
    ("ours", Kind::Ours { passing: 0 }),
    ("ours-5", Kind::Ours { passing: 5 }),
    ("ours-roaming", Kind::Roaming),
    ("raw", Kind::RawEpoll),
    ("mio", Kind::Mio),
    ("tokio", Kind::TokioCurrent),
    ("tokio-bare", Kind::TokioBare),
    ("smol", Kind::Smol),
];

const WORK: Work = Work {
    first: 2_000,
    most: 10_000_000,
};

/// The maximum number of connections that count as few: their memory is in the cache shortly after
/// a switch to another server.
const FEW: usize = 100;

/// Starts the server with this name on the command line.
pub(crate) fn start_by_name(name: &str) -> Option<Running> {
    let (_, kind) = SERVERS.into_iter().find(|(known, _)| *known == name)?;
    Some(servers::start(kind))
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let mut tables = Vec::new();
    for connections in [50, 1000] {
        tables.push(against_peers(connections, settings));
    }
    tables.push(more_handlers(settings));
    tables.push(roaming(settings));
    tables.push(blockers(settings));
    tables.push(fairness(settings));
    tables.extend(idle::run(settings, &idle::ECHO));
    tables
}

/// The cost of a roaming loop when no handler blocks.
fn roaming(settings: &Settings) -> Table {
    let heading = Heading {
        title: "echo, 50 connections, a roaming loop beside a pinned one, no handler blocks"
            .to_owned(),
        unit: "server CPU ns/message",
        better: Better::Less,
        side: Some("messages/s"),
        ratios: vec![Ratio::new("roaming_over_pinned", Role::Peer)],
    };
    let lineup = vec![
        entry("ours, roaming", Role::Ours, Kind::Roaming, 50),
        entry("ours, pinned", Role::Peer, Kind::Ours { passing: 0 }, 50),
    ];
    rounds::race(heading, WORK, lineup, &by_short_rounds(50, settings))
}

/// The gain of a roaming loop when one message in a hundred blocks for 10 ms.
fn blockers(settings: &Settings) -> Table {
    let heading = Heading {
        title: "echo, 50 connections, 1 % of the messages block for 10 ms".to_owned(),
        unit: "messages/s",
        better: Better::More,
        side: Some("p99 us"),
        ratios: vec![Ratio::new("roaming_blockers_over_pinned", Role::Peer)],
    };
    let blocks = |name: &str, role, kind| {
        let mut server_run = ServerRun::new(kind, 50);
        Entry::new(name, role, move |amount| {
            // At least a hundred blocks; otherwise only a few of them would determine the figure.
            server_run.run_for(amount.max(10_000), Figure::Speed)
        })
    };
    let lineup = vec![
        blocks("ours, roaming", Role::Ours, Kind::RoamingBlockers),
        blocks("ours, pinned", Role::Peer, Kind::PinnedBlockers),
    ];
    rounds::race(heading, WORK, lineup, settings)
}

/// Compares ours with one handler with the floor and the peers.
fn against_peers(connections: usize, settings: &Settings) -> Table {
    let ratio =
        |what: &str, against| Ratio::new(format!("echo_{connections}_over_{what}"), against);
    let heading = Heading {
        title: format!("echo, {connections} connections"),
        unit: "server CPU ns/message",
        better: Better::Less,
        side: Some("messages/s"),
        ratios: vec![ratio("raw", Role::Inline), ratio("tokio", Role::Peer)],
    };
    let lineup = vec![
        entry(
            "ours, 1 handler",
            Role::Ours,
            Kind::Ours { passing: 0 },
            connections,
        ),
        entry("raw epoll", Role::Inline, Kind::RawEpoll, connections),
        entry(
            "tokio current_thread",
            Role::Peer,
            Kind::TokioCurrent,
            connections,
        ),
    ];
    let settings = by_short_rounds(connections, settings);
    rounds::race(heading, WORK, lineup, &settings)
}

/// Returns settings for comparing servers that differ by a few per cent. The machine's speed
/// changes by more than that within a second, so there are many short rounds, close to each other
/// in time, instead of a few long ones. A round is not so short that the server's warm-up with its
/// connections dominates the figure.
fn by_short_rounds(connections: usize, settings: &Settings) -> Settings {
    let (rounds, span) = if connections <= FEW {
        (175, 30)
    } else {
        (101, 100)
    };
    Settings {
        rounds: Some(settings.rounds.unwrap_or(rounds)),
        span: Some(Duration::from_millis(span)),
        ..settings.clone()
    }
}

/// The cost of handlers that only pass messages on.
fn more_handlers(settings: &Settings) -> Table {
    let heading = Heading {
        title: "echo, 50 connections, 5 handlers more that pass on, beside 1".to_owned(),
        unit: "server CPU ns/message",
        better: Better::Less,
        side: Some("messages/s"),
        ratios: vec![Ratio::new("echo_5handlers_over_1", Role::Peer)],
    };
    let lineup = vec![
        entry(
            "ours, 1 and 5 that pass on",
            Role::Ours,
            Kind::Ours { passing: 5 },
            50,
        ),
        entry("ours, 1 handler", Role::Peer, Kind::Ours { passing: 0 }, 50),
    ];
    rounds::race(heading, WORK, lineup, &by_short_rounds(50, settings))
}

/// The fairness among 1000 connections: the median wait divided by the 99th percentile.
fn fairness(settings: &Settings) -> Table {
    let heading = Heading {
        title: "echo, 1000 connections, fairness".to_owned(),
        unit: "p50/p99",
        better: Better::More,
        side: Some("p99 us"),
        ratios: vec![Ratio::new("echo_fairness", Role::Inline)],
    };
    let fair = |name: &str, role, kind| {
        let mut server_run = ServerRun::new(kind, 1000);
        let run = move |amount| server_run.run_for(amount, Figure::Fairness);
        Entry::new(name, role, run)
    };
    let equal = |_| Outcome {
        elapsed: Duration::from_secs(1),
        sample: Sample {
            value: 1.0,
            side: None,
        },
    };
    let lineup = vec![
        fair("ours, 1 handler", Role::Ours, Kind::Ours { passing: 0 }),
        fair("raw epoll", Role::Floor, Kind::RawEpoll),
        fair("tokio current_thread", Role::Floor, Kind::TokioCurrent),
        Entry::new("every connection waits equally long", Role::Inline, equal),
    ];
    rounds::race(heading, WORK, lineup, settings)
}

fn entry(name: &str, role: Role, kind: Kind, connections: usize) -> Entry {
    let mut server_run = ServerRun::new(kind, connections);
    Entry::new(name, role, move |amount| {
        server_run.run_for(amount, Figure::Cpu)
    })
}

/// The figure to take from a run.
#[derive(Clone, Copy)]
enum Figure {
    Cpu,
    Speed,
    Fairness,
}

/// A server with its connections, started at the first run and kept.
struct ServerRun {
    kind: Kind,
    connections: usize,
    started: Option<(Running, Load)>,
}

impl ServerRun {
    fn new(kind: Kind, connections: usize) -> Self {
        Self {
            kind,
            connections,
            started: None,
        }
    }

    fn run_for(&mut self, messages: u64, figure: Figure) -> Outcome {
        let (kind, connections) = (self.kind, self.connections);
        let (server, load) = self.started.get_or_insert_with(|| {
            let server = servers::start(kind);
            let load = Load::connect(server.address, connections, MESSAGE);
            (server, load)
        });
        let before = server.calls();
        let result = load.run(messages);
        if let (Some(before), Some(after)) = (before, server.calls()) {
            let calls = (after - before) as f64 / result.messages as f64;
            eprintln!("      {connections} connections: {calls:.2} system calls a message");
        }
        let each = |time: Duration| time.as_nanos() as f64 / result.messages as f64;
        let sample = match figure {
            Figure::Cpu => Sample {
                value: each(result.server_cpu),
                side: Some(result.messages as f64 / result.elapsed.as_secs_f64()),
            },
            Figure::Speed => Sample {
                value: result.messages as f64 / result.elapsed.as_secs_f64(),
                side: Some(result.p99 / 1000.0),
            },
            Figure::Fairness => Sample {
                value: result.p50 / result.p99,
                side: Some(result.p99 / 1000.0),
            },
        };
        Outcome {
            elapsed: result.elapsed,
            sample,
        }
    }
}
