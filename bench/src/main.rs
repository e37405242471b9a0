//! The benchmark program of Tidegate. It compares our event loops and promises with other libraries
//! ("peers"), in the same process and the same rounds. A "contestant" is one implementation in a
//! comparison.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml -- SUITE [--quick] [--rounds N] [--only a,b]`
//!
//! Progress goes to stderr. Stdout gets one table per comparison. Then it gets, for each comparison
//! that has a contestant of ours, a line `RATIO <name> <median> <low> <high>`: the factor by which
//! ours is better than the best peer.
//!
//! | Folder or file | Contents |
//! |---|---|
//! | `cli` | the command line, and the help text |
//! | `handoff`, `pingpong`, `promise`, `pool` | suites |
//! | `timer`, `strategy`, `isolate`, `echo`, `hyper`, `http`, `client`, `proxy`, `page` | suites |
//! | `proof` | the gateway under load: not a comparison, but an answer |
//! | `contest`, `ours`, `peers` | the interface of a contestant, our contestants, and the others |
//! | `rounds`, `report` | running contestants in rounds; quartiles, tables and RATIO lines |
//! | `child`, `served`, `cost` | child processes, servers in them, servers under callgrind |
//! | `counting`, `cpus` | allocated bytes, CPU affinity |
//! | `dice`, `gate` | random numbers, waiting for threads |
//! | `load`, `exchange`, `raw_epoll` | messages over sockets, one HTTP request, a bare epoll loop |
//! | `machine` | CPU time |
//!
//! Every table has a ratio, or a page of `docs` refers to it.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and starts threads by hand"
)]

mod child;
mod cli;
mod client;
mod contest;
mod cost;
mod counting;
mod cpus;
mod dice;
mod echo;
mod exchange;
mod gate;
mod handoff;
mod http;
mod hyper;
mod isolate;
mod load;
mod machine;
mod ours;
mod page;
mod peers;
mod pingpong;
mod pool;
mod promise;
mod proof;
mod proxy;
mod raw_epoll;
mod report;
mod rounds;
mod served;
mod strategy;
mod timer;

use std::process::ExitCode;
use std::time::Instant;

use cli::{Command, Suite};
use rounds::Settings;
use served::Running;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => {
            println!("{}", cli::HELP);
            ExitCode::SUCCESS
        }
        Command::Case(case, settings) => pingpong::run_case(case, &settings),
        Command::Serve(server) => served::child(&server, start_by_name),
        Command::Idle(what) => echo::idle_child(&what),
        Command::CostServer(what) => cost::serve(&what, start_by_name),
        Command::CostClient(what) => cost::client(&what),
        Command::Call(what) => client::caller_child(&what),
        Command::Gateway(what) => proof::gateway_child(&what),
        Command::Tidegate(words) => proof::tidegate_child(&words),
        Command::Prove(proof) => proof::run(&proof),
        Command::Run(suites, settings) => suites
            .into_iter()
            .map(|suite| run(suite, &settings))
            .find(|code| *code != ExitCode::SUCCESS)
            .unwrap_or(ExitCode::SUCCESS),
    }
}

/// Starts the server with this name on the command line.
fn start_by_name(name: &str) -> Option<Running> {
    echo::start_by_name(name)
        .or_else(|| hyper::start_by_name(name))
        .or_else(|| http::start_by_name(name))
        .or_else(|| client::start_by_name(name))
        .or_else(|| proxy::start_by_name(name))
}

/// Runs one suite and prints its tables, then its RATIO lines.
fn run(suite: Suite, settings: &Settings) -> ExitCode {
    let began = Instant::now();
    eprintln!("suite {}", suite.name());
    let tables = match suite {
        Suite::Handoff => Ok(handoff::run(settings)),
        Suite::Pingpong => pingpong::run(settings),
        Suite::Promise => Ok(promise::run(settings)),
        Suite::Strategy => Ok(strategy::run(settings)),
        Suite::Pool => Ok(pool::run(settings)),
        Suite::Echo => Ok(echo::run(settings)),
        Suite::Timer => Ok(timer::run(settings)),
        Suite::Isolate => Ok(isolate::run(settings)),
        Suite::Hyper => Ok(hyper::run(settings)),
        Suite::Http => Ok(http::run(settings)),
        Suite::Client => Ok(client::run(settings)),
        Suite::Proxy => Ok(proxy::run(settings)),
        Suite::Page => page::run(settings),
    };
    let tables = match tables {
        Ok(tables) => tables,
        Err(complaint) => {
            eprintln!("suite {} failed: {complaint}", suite.name());
            return ExitCode::FAILURE;
        }
    };
    report::print(&tables);
    eprintln!(
        "suite {} took {:.0} s",
        suite.name(),
        began.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
