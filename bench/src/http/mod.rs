//! Suite `http`: our HTTP server beside a bare epoll loop with httparse, may_minihttp and hyper.
//!
//! Each server runs in a process of its own on CPU 0, the load generator in this process on CPU 1.
//! The load is a closed loop: each connection waits for its responses before it sends the next
//! requests. Before the clock of a run starts, each connection has exchanged some messages, so that
//! neither its opening nor cold caches after the run of another server are in the figures. A run gives
//! two tables: the server's CPU time per request with the requests of a run, and requests per second
//! with the 99th percentile of the waits. In the pipelined case a wait is that of 16 requests.
//!
//! A ratio with `cpu` in its name compares CPU time, one with `memory` memory, the others compare
//! requests per second. `http_cpu_over_*` is the lower one of 64 and 512 connections.
//! `http_drain_over_limit` compares the time of a drain of 10,000 idle connections with 100 ms, on one
//! loop; `http_drain_all_cpus_over_limit` does so on a loop for each CPU.

mod drain;
mod servers;

use std::cell::RefCell;
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use self::servers::{Replies, serve_raw};
use crate::echo::idle::{self, Exchange, IdleRace};
use crate::exchange::exchange;
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::{Running, ServerProcess};

/// A request with three fields; the short response has two and those that the server adds.
pub(crate) const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1\r\n\
    User-Agent: tidegate-bench/0.1.0\r\nAccept: text/plain, */*;q=0.8\r\n\r\n";
const _: () = assert!(REQUEST.len() == 109, "the request that `cost http` counts");

const STREAM_REQUEST: &[u8] = b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// Messages on each connection before the clock of a run starts.
const WARM_UP: usize = 4;
/// The least number of messages on each connection while the clock runs.
const LEAST: usize = 8;

/// A comparison: what the clients do.
#[derive(Clone, Copy)]
struct Case {
    title: &'static str,
    connections: usize,
    request: &'static [u8],
    /// Requests that a connection sends at once.
    depth: usize,
    /// Messages after which a connection is replaced.
    life: u32,
    /// Rounds, and the length of a run. Many short rounds, because the speed of the machine changes
    /// within a second; longer ones where more memory is used.
    rounds: usize,
    span: Duration,
}

const FEW: Case = Case {
    title: "http, 64 connections",
    connections: 64,
    request: REQUEST,
    depth: 1,
    life: u32::MAX,
    rounds: 75,
    span: Duration::from_millis(40),
};
const MANY: Case = Case {
    title: "http, 512 connections",
    connections: 512,
    rounds: 51,
    span: Duration::from_millis(80),
    ..FEW
};
const PIPELINED: Case = Case {
    title: "http, 64 connections, pipelined 16 deep",
    depth: 16,
    ..FEW
};
const SHORT: Case = Case {
    title: "http, 64 connections of 10 requests each",
    life: 10,
    rounds: 51,
    ..FEW
};
const STREAMED: Case = Case {
    title: "http, 8 connections, 1 MiB streamed in 16 pieces",
    connections: 8,
    request: STREAM_REQUEST,
    rounds: 51,
    span: Duration::from_millis(60),
    ..FEW
};
const ROAMING: Case = Case {
    title: "http, 64 connections, a roaming loop beside a pinned one",
    ..FEW
};

const HYPER: Role = Role::Named("hyper");
const RAW: Role = Role::Named("raw");
const MAY: Role = Role::Named("may");

/// A server in a table.
#[derive(Clone, Copy)]
struct Contestant {
    name: &'static str,
    /// Its name on the command line.
    server: &'static str,
    role: Role,
}

const fn contestant(name: &'static str, server: &'static str, role: Role) -> Contestant {
    Contestant { name, server, role }
}

/// The servers. Each ratio needs the first of them, and those that it compares with it.
const SERVERS: [Contestant; 4] = [
    contestant("ours", "http-ours", Role::Ours),
    contestant("hyper, tokio current_thread", "http-hyper", HYPER),
    contestant("raw epoll, httparse", "http-raw", RAW),
    contestant("may_minihttp", "http-may", MAY),
];

/// Starts the server with this name on the command line.
pub(crate) fn start_by_name(name: &str) -> Option<Running> {
    servers::start(name)
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let (few, many) = (
        race(&FEW, SERVERS, settings),
        race(&MANY, SERVERS, settings),
    );
    let mut tables = [few, many].concat();
    for (name, against) in [
        ("http_cpu_over_hyper", HYPER),
        ("http_cpu_over_raw", RAW),
        ("http_cpu_over_may", MAY),
    ] {
        add_lower(&mut tables, Ratio::new(name, against));
    }
    let mut pipelined = race(&PIPELINED, SERVERS.into_iter().take(3), settings);
    add(&mut pipelined, CPU, "http_pipelined_cpu_over_hyper", HYPER);
    add(&mut pipelined, SPEED, "http_pipelined_over_hyper", HYPER);
    add(&mut pipelined, SPEED, "http_pipelined_over_raw", RAW);
    tables.extend(pipelined);
    let mut short = race(&SHORT, SERVERS.into_iter().take(2), settings);
    add(&mut short, CPU, "http_short_cpu_over_hyper", HYPER);
    add(&mut short, SPEED, "http_short_over_hyper", HYPER);
    tables.extend(short);
    let mut streamed = race(&STREAMED, SERVERS.into_iter().take(2), settings);
    add(&mut streamed, CPU, "http_stream_cpu_over_hyper", HYPER);
    add(&mut streamed, SPEED, "http_stream_over_hyper", HYPER);
    tables.extend(streamed);
    let mut roaming = race(&ROAMING, ROAMERS, settings);
    add(
        &mut roaming,
        CPU,
        "http_roaming_cpu_over_pinned",
        Role::Peer,
    );
    add(&mut roaming, SPEED, "http_roaming_over_pinned", Role::Peer);
    tables.extend(roaming);
    tables.extend(idle::run(settings, &IDLE));
    tables.extend(drain::run(settings));
    tables
}

/// Our server on a roaming loop, where its service may block.
const ROAMERS: [Contestant; 2] = [
    contestant("ours, roaming", "http-ours-roaming", Role::Ours),
    contestant("ours, pinned", "http-ours", Role::Peer),
];

/// Memory of idle connections that have served one request.
const IDLE: IdleRace = IdleRace {
    title: "http, idle",
    servers: &[
        ("ours", "http-ours", Role::Ours),
        ("hyper, tokio current_thread", "http-hyper", HYPER),
    ],
    ratios: &[("http_idle_memory_over_hyper", HYPER)],
    connections: (10_000, 10_000),
    exchange: Exchange::Http,
};
/// The places of the two tables of a case.
const CPU: usize = 0;
const SPEED: usize = 1;

/// Adds a ratio to one of the two tables of a case.
fn add(tables: &mut [Table; 2], place: usize, name: &str, against: Role) {
    tables[place].heading.ratios.push(Ratio::new(name, against));
}

/// Adds a ratio of CPU time to the table in which it is lower.
fn add_lower(tables: &mut [Table], ratio: Ratio) {
    let factor = |table: &Table| {
        let of_cpu = table.heading.better == Better::Less;
        let factor = table.factor(ratio.against).filter(|_| of_cpu);
        factor.map_or(f64::INFINITY, |q| q.median)
    };
    let lowest = tables
        .iter_mut()
        .min_by(|a, b| factor(a).total_cmp(&factor(b)));
    if let Some(table) = lowest {
        table.heading.ratios.push(ratio);
    }
}

/// The result of a run.
#[derive(Clone, Copy)]
struct Measured {
    /// Requests per second.
    speed: f64,
    /// The 99th percentile of the waits, in microseconds.
    p99: f64,
}

/// Runs a comparison. Returns the table of the CPU time, and that of the requests per second.
fn race(
    case: &Case,
    lineup: impl IntoIterator<Item = Contestant>,
    settings: &Settings,
) -> [Table; 2] {
    let heading = Heading {
        title: format!("{}, CPU", case.title),
        unit: "server CPU ns/request",
        better: Better::Less,
        side: Some("requests a run"),
        ratios: Vec::new(),
    };
    let settings = Settings {
        rounds: Some(settings.rounds.unwrap_or(case.rounds)),
        span: Some(case.span),
        ..settings.clone()
    };
    let work = Work {
        first: (case.connections * case.depth * LEAST) as u64,
        most: 10_000_000,
    };
    let all: Vec<(&str, Rc<RefCell<Vec<Measured>>>)> = Vec::new();
    let mut all = all;
    let mut entries = Vec::new();
    for contestant in lineup {
        let measured = Rc::default();
        entries.push(entry(*case, contestant, Rc::clone(&measured)));
        all.push((contestant.name, measured));
    }
    let cpu = rounds::race(heading, work, entries, &settings);
    let speed = speed_table(case, &cpu, &all);
    [cpu, speed]
}

/// Returns the table of requests per second of the same runs as `cpu`.
fn speed_table(
    case: &Case,
    cpu: &Table,
    all: &[(&'static str, Rc<RefCell<Vec<Measured>>>)],
) -> Table {
    let row = |row: &Row| {
        let measured = all.iter().find(|(name, _)| *name == row.name);
        let measured = measured.map(|(_, measured)| measured.borrow().clone());
        let measured = measured.unwrap_or_default();
        // The first runs were those of the warm-up.
        let warm_up = measured.len().saturating_sub(row.samples.len());
        let sample = |run: &Measured| Sample {
            value: run.speed,
            side: Some(run.p99),
        };
        Row {
            samples: measured[warm_up..].iter().map(sample).collect(),
            ..row.clone()
        }
    };
    Table {
        heading: Heading {
            title: format!("{}, speed", case.title),
            unit: "requests/s",
            better: Better::More,
            side: Some("p99 us"),
            ratios: Vec::new(),
        },
        rows: cpu.rows.iter().map(row).collect(),
        others: cpu.others,
    }
}

/// Returns a contestant whose server and connections are started at the first run and kept.
fn entry(case: Case, contestant: Contestant, runs: Rc<RefCell<Vec<Measured>>>) -> Entry {
    let mut started: Option<(ServerProcess, Load)> = None;
    let run = move |requests: u64| {
        let (server, load) = started.get_or_insert_with(|| {
            let server = ServerProcess::start(contestant.server);
            let server = server.unwrap_or_else(|why| panic!("{}: {why}", contestant.server));
            let load = case.connect(&server);
            (server, load)
        });
        load.warm_up(WARM_UP);
        let mut cpu = || server.cpu().expect("the server still runs");
        let before = cpu();
        let result = load.run(requests.div_ceil(case.depth as u64));
        let cpu = cpu() - before;
        let requests = (result.messages * case.depth as u64) as f64;
        let speed = requests / result.elapsed.as_secs_f64();
        runs.borrow_mut().push(Measured {
            speed,
            p99: result.p99 / 1000.0,
        });
        Outcome {
            elapsed: result.elapsed,
            sample: Sample {
                value: cpu.as_nanos() as f64 / requests,
                side: Some(requests),
            },
        }
    };
    Entry::new(contestant.name, contestant.role, run)
}

impl Case {
    /// Connects the clients of the case to a server.
    fn connect(&self, server: &ServerProcess) -> Load {
        let mut first = TcpStream::connect(server.address).expect("the server listens");
        let reply = exchange(&mut first, self.request).expect("the server replies");
        let message = self.request.repeat(self.depth);
        let reply = reply * self.depth;
        Load::exchange(server.address, self.connections, message, reply).short(self.life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(better: Better, ours: f64, hyper: f64) -> Table {
        let row = |role, value| Row {
            name: String::new(),
            role,
            samples: vec![Sample { value, side: None }],
        };
        Table {
            heading: Heading {
                title: String::new(),
                unit: "",
                better,
                side: None,
                ratios: Vec::new(),
            },
            rows: vec![row(Role::Ours, ours), row(HYPER, hyper)],
            others: None,
        }
    }

    #[test]
    fn the_lower_ratio_of_cpu_time_is_printed() {
        let mut tables = [
            table(Better::Less, 10.0, 15.0),
            table(Better::More, 20.0, 10.0),
            table(Better::Less, 10.0, 13.0),
            table(Better::More, 10.0, 100.0),
        ];
        add_lower(&mut tables, Ratio::new("x", HYPER));
        let lines: Vec<String> = tables.iter().flat_map(Table::ratio_lines).collect();
        assert_eq!(lines, ["RATIO x 1.300 1.300 1.300"]);
    }
}
