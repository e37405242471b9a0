//! Suite `strategy`: the cost of the execution strategies, and an explanation of the "8 times" in
//! the literature.
//!
//! The suite starts with a calibration. Then come four groups of tables, with interleaved rounds:
//!
//! * `folklore`: many callers, few pool threads, and a quarter of the requests sleep. The ratio
//!   equals that of the numbers of threads that may sleep; the last row shows this by giving the
//!   loser as many.
//! * `equal`: the same number of threads for every strategy, and no task sleeps: the cost of
//!   hand-off and cache misses.
//! * `late`: late hand-over against ProduceConsume and against eager hand-over.
//! * `sockets`: messages to one loop over TCP at a fixed rate, with a caller in a process of its
//!   own. Not with `--quick`.

mod bench_pool;
mod calibrate;
mod equal;
mod folklore;
mod late;
mod open_loop;
mod plot;
mod sockets;
mod spin;
mod work;

pub(crate) use self::sockets::caller_child;
use crate::report::Table;
use crate::rounds::Settings;

/// Default number of rounds: the runs are longer than those of other suites.
const ROUNDS: usize = 9;

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let settings = &Settings {
        rounds: settings.rounds.or(Some(ROUNDS)),
        ..settings.clone()
    };
    println!("{}", calibrate::report());
    let mut tables = folklore::run(settings);
    let (equal, curves) = equal::run(settings);
    tables.extend(equal);
    tables.extend(late::run(settings));
    let (sockets, bars) = sockets::run(settings);
    tables.extend(sockets);
    if let Some(path) = &settings.plot {
        match std::fs::write(path, plot::svg(&curves, &bars)) {
            Ok(()) => eprintln!("  plot written to {path}"),
            Err(error) => eprintln!("  no plot at {path}: {error}"),
        }
    }
    tables
}
