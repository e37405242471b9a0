//! Suite `page`: the load generator `tidegate bench` beside wrk, and what open pages cost a gateway.
//!
//! `bench_over_wrk` compares requests per second, of one thread on CPU 1 against a bare epoll loop on
//! CPU 0, in a closed loop. `dashboard_cost` is the CPU time of a gateway with five open pages, divided
//! by that without pages, at the same rate of requests.
//!
//! Without wrk, only `dashboard_cost` is measured.
//!
//! | file | contents |
//! |---|---|
//! | `generator` | a run of ours or of wrk, and what it prints |
//! | `watched` | a gateway with open pages |

mod generator;
mod watched;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use self::generator::{Generator, Shape};
use self::watched::Watched;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};
use crate::served::ServerProcess;

/// The number of open pages.
const PAGES: usize = 5;

const CLOSED: Shape = Shape {
    connections: 64,
    rate: None,
    seconds: 1,
};

/// The amount of work does not matter: each run takes the same time.
const WORK: Work = Work { first: 1, most: 1 };

const SPEED: &str = "load generators, 64 connections, closed loop";
const COST: &str = "gateway at 5,000 requests/s, with open pages and without";

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Table>, String> {
    let settings = Settings {
        span: Some(Duration::from_secs(CLOSED.seconds)),
        ..settings.clone()
    };
    let mut tables = Vec::new();
    if !Generator::has_wrk() {
        println!("wrk is left out: it is not installed; `.ci/peers` does");
    } else if settings.wants_table(SPEED) {
        let server = ServerProcess::start("http-raw")?;
        tables.push(speed(server.address, &settings));
    }
    if settings.wants_table(COST) {
        tables.push(cost(Watched::start()?, &settings)?);
    }
    Ok(tables)
}

/// Compares requests per second.
fn speed(address: SocketAddr, settings: &Settings) -> Table {
    let heading = Heading {
        title: SPEED.to_owned(),
        unit: "requests/s",
        better: Better::More,
        side: Some("its CPU ns/request"),
        ratios: vec![Ratio::new("bench_over_wrk", Role::Peer)],
    };
    let entry = |generator: Generator, role| {
        Entry::new(generator.name(), role, move |_| {
            let run = generator.run(address, CLOSED);
            let (found, cpu) = run.unwrap_or_else(|why| panic!("{why}"));
            Outcome {
                elapsed: Duration::from_secs(CLOSED.seconds),
                sample: Sample {
                    value: found.per_second,
                    side: Some(cpu / found.requests.max(1.0)),
                },
            }
        })
    };
    let lineup = vec![
        entry(Generator::Ours, Role::Ours),
        entry(Generator::Wrk, Role::Peer),
    ];
    rounds::race(heading, WORK, lineup, settings)
}

/// Compares the CPU time of the gateway. The row without pages takes the place of ours, so that the
/// ratio is the cost. Fails if the load did not have its rate.
fn cost(watched: Watched, settings: &Settings) -> Result<Table, String> {
    let watched = Rc::new(RefCell::new(watched));
    let heading = Heading {
        title: COST.to_owned(),
        unit: "gateway CPU ns/request",
        better: Better::Less,
        side: None,
        ratios: vec![Ratio::new("dashboard_cost", Role::Peer)],
    };
    let entry = |name, role, pages| {
        let watched = Rc::clone(&watched);
        Entry::new(name, role, move |_| {
            let run = watched.borrow().run(pages);
            run.unwrap_or_else(|why| panic!("{why}"))
        })
    };
    let lineup = vec![
        entry("no page", Role::Ours, 0),
        entry("five pages", Role::Peer, PAGES),
    ];
    let table = rounds::race(heading, WORK, lineup, settings);
    watched.borrow_mut().finish()?;
    Ok(table)
}
