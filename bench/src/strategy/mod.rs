//! Suite `strategy`: the cost of the execution strategies, and an explanation of the "8 times" in
//! the literature. Three groups of tables, with interleaved rounds:
//!
//! * `folklore`: many callers, few pool threads, and a quarter of the requests sleep. The ratio
//!   equals that of the numbers of threads that may sleep; the last row shows this by giving the
//!   loser as many.
//! * `equal`: the same number of threads for every strategy, and no task sleeps: the cost of
//!   hand-off and cache misses.
//! * `late`: late hand-over against ProduceConsume and against eager hand-over.

mod bench_pool;
mod equal;
mod folklore;
mod late;
mod open_loop;
mod work;

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
    let mut tables = folklore::run(settings);
    tables.extend(equal::run(settings));
    tables.extend(late::run(settings));
    tables
}
