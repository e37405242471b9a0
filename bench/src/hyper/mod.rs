//! Suite `hyper`: the same HTTP service on our event loop and on tokio's current_thread runtime, over
//! TCP on one machine; and the memory of idle connections.
//!
//! As in suite `echo`, the server runs on CPU 0 and the load generator on CPU 1, and the compared
//! figure is the server's CPU time per request. Each of 64 connections waits for its response before
//! it sends the next request. Both sides run the same hyper with the same settings; only its I/O, its
//! timer and its executor differ.

mod servers;

use std::net::TcpStream;
use std::time::Duration;

use self::servers::Kind;
pub(crate) use self::servers::tokio_server;
use crate::echo::idle::{self, Exchange, IdleRace};
use crate::exchange::{REQUEST, exchange};
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::Running;

const CONNECTIONS: usize = 64;

const WORK: Work = Work {
    first: 2_000,
    most: 10_000_000,
};

/// Memory of idle connections that have served one request.
const IDLE: IdleRace = IdleRace {
    title: "hyper, idle",
    servers: &[
        ("hyper on our loop", "hyper-ours", Role::Ours),
        ("hyper on tokio", "hyper-tokio", Role::Peer),
    ],
    ratios: &[("hyper_idle_memory_over_tokio", Role::Peer)],
    connections: (10_000, 10_000),
    exchange: Exchange::Http,
};

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let races = [
        ("hyper", Kind::HyperOurs, Kind::HyperTokio),
        ("axum", Kind::AxumOurs, Kind::AxumTokio),
    ];
    let tables = races.map(|(name, ours, theirs)| race(name, ours, theirs, settings));
    tables
        .into_iter()
        .chain(idle::run(settings, &IDLE))
        .collect()
}

fn race(name: &str, ours: Kind, theirs: Kind, settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("{name}, {CONNECTIONS} connections, keep-alive"),
        unit: "server CPU ns/request",
        better: Better::Less,
        side: Some("requests/s"),
        ratios: vec![Ratio::new(format!("{name}_over_tokio"), Role::Peer)],
    };
    let lineup = vec![
        entry(&format!("{name} on our loop"), Role::Ours, ours),
        entry(
            &format!("{name} on tokio current_thread"),
            Role::Peer,
            theirs,
        ),
    ];
    // Many short rounds, as in suite `echo`: the speed of the machine changes within a second.
    let settings = Settings {
        rounds: Some(settings.rounds.unwrap_or(101)),
        span: Some(Duration::from_millis(60)),
        ..settings.clone()
    };
    rounds::race(heading, WORK, lineup, &settings)
}

/// Returns a contestant whose server and connections are started at the first run and kept.
fn entry(name: &str, role: Role, kind: Kind) -> Entry {
    let mut started: Option<(Running, Load)> = None;
    Entry::new(name, role, move |requests| {
        let (_, load) = started.get_or_insert_with(|| {
            let running = servers::start(kind);
            let address = running.address;
            let mut first = TcpStream::connect(address).expect("the server listens");
            let reply = exchange(&mut first, REQUEST).expect("the server replies");
            let load = Load::exchange(address, CONNECTIONS, REQUEST.to_vec(), reply);
            (running, load)
        });
        let result = load.run(requests);
        let each = result.server_cpu.as_nanos() as f64 / result.messages as f64;
        Outcome {
            elapsed: result.elapsed,
            sample: Sample {
                value: each,
                side: Some(result.messages as f64 / result.elapsed.as_secs_f64()),
            },
        }
    })
}

/// Starts the server with this name on the command line.
pub(crate) fn start_by_name(name: &str) -> Option<Running> {
    let kinds = [
        ("hyper-ours", Kind::HyperOurs),
        ("hyper-tokio", Kind::HyperTokio),
        ("axum-ours", Kind::AxumOurs),
        ("axum-tokio", Kind::AxumTokio),
    ];
    let found = kinds.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| servers::start(kind))
}
