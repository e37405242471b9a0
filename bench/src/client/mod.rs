//! Suite `client`: our HTTP client beside hyper's, and a bare epoll loop with httparse;
//! and what a gateway needs besides: admission, relays between neighbours, reuse of connections.
//!
//! In the comparison of clients, the raw server of suite `http` runs in a process on CPU 0, and each
//! client in a process of its own on CPU 1. 64 requests are in flight, each on a connection of its
//! own, as a closed loop. The compared figure is the client's CPU time per request.
//!
//! | file | contents |
//! |---|---|
//! | `callers` | the clients, and the process in which one runs |
//! | `relay` | a message there and back between two channels of one loop, beside two echoes |
//! | `reuse` | the share of requests on connections that were used before, on two loops and on one |

mod callers;
mod relay;
mod reuse;

use std::time::Duration;

use self::callers::CallerProcess;
pub(crate) use self::callers::child as caller_child;
use crate::isolate;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::{Running, ServerProcess};

/// Connections of a client, each with one request in flight.
const CONNECTIONS: u64 = 64;

/// The fields of a request besides `Host`: as in suite `http`.
const AGENT: &str = "tidegate-bench/0.1.0";
const ACCEPT: &str = "text/plain, */*;q=0.8";
/// The length of the body of a response.
const BODY: usize = "Hello, World!".len();

const HYPER: Role = Role::Named("hyper");
const RAW: Role = Role::Named("raw");

const WORK: Work = Work {
    first: 2_000,
    most: 10_000_000,
};

/// Starts the server with this name on the command line.
pub(crate) fn start_by_name(name: &str) -> Option<Running> {
    relay::start_by_name(name)
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let mut tables = vec![
        race("calls", "client", "ours", settings),
        race("exchanges", "exchange", "ours-exchange", settings),
    ];
    tables.extend(isolate::admission(settings));
    tables.push(relay::run(settings));
    tables.push(reuse::run(settings));
    tables
}

/// Compares a layer of our client, which has this name on the command line, with the others.
fn race(layer: &str, ratios: &str, caller: &'static str, settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("client, {CONNECTIONS} connections, {layer}"),
        unit: "client CPU ns/request",
        better: Better::Less,
        side: Some("requests/s"),
        ratios: vec![
            Ratio::new(format!("{ratios}_cpu_over_hyper"), HYPER),
            Ratio::new(format!("{ratios}_cpu_over_raw"), RAW),
        ],
    };
    let lineup = vec![
        entry(&format!("ours, {layer}"), Role::Ours, caller),
        entry("hyper, pool of hyper-util, tokio", HYPER, "hyper"),
        entry("raw epoll, httparse", RAW, "raw"),
    ];
    // Many short rounds, as in suite `http`: the speed of the machine changes within a second.
    let settings = Settings {
        rounds: Some(settings.rounds.unwrap_or(75)),
        span: Some(Duration::from_millis(40)),
        ..settings.clone()
    };
    rounds::race(heading, WORK, lineup, &settings)
}

/// Returns a contestant whose server and client are started at the first run and kept.
fn entry(name: &str, role: Role, caller: &'static str) -> Entry {
    let mut started: Option<(ServerProcess, CallerProcess)> = None;
    Entry::new(name, role, move |requests| {
        let (_, client) = started.get_or_insert_with(|| {
            let server = ServerProcess::start("http-raw").expect("the server starts");
            let client = CallerProcess::start(caller, server.address);
            (
                server,
                client.unwrap_or_else(|why| panic!("{caller}: {why}")),
            )
        });
        let run = client.run(requests).expect("the client still runs");
        let requests = run.requests as f64;
        Outcome {
            elapsed: run.elapsed,
            sample: Sample {
                value: run.cpu.as_nanos() as f64 / requests,
                side: Some(requests / run.elapsed.as_secs_f64()),
            },
        }
    })
}
