//! Suite `strategy`: what the execution strategies cost, and what the "8 times" of the literature is made of.
//!
//! Calibration first, then four groups of tables, rounds interleaved:
//!
//! * `folklore`: many callers, few pool threads, a quarter of the requests asleep. The ratio is that of the threads that may
//!   sleep, and the last row shows it by giving the loser as many.
//! * `equal`: the same number of threads for every strategy, nobody sleeps: hand-over and cache.
//! * `late`: late hand-over against ProduceConsume and against eager hand-over.
//! * `sockets`: messages to one loop over TCP at a fixed rate, a caller in a process of its own. Not with `--quick`.

mod calibrate;
mod crew;
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

/// Rounds when nothing else is said: its runs are longer than those of other suites.
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
