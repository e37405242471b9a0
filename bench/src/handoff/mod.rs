//! Suite `handoff`: 1, 2 and 4 producers into one loop, million tasks a second.
//!
//! Every task is a closure of two captured words; at most 65,536 are outstanding. Who keeps that bound is part of a
//! contestant's set-up ([`crate::contest::Limit`]); where both ways are possible both are rows, so that the best peer always runs in its
//! best set-up. The second table of each kind, the burst, has no bound and no target.

mod drive;
mod lane;
mod lineup;

pub(crate) use lineup::Lineup;

use crate::ours;
use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{self, Settings, Work};

/// How many tasks may be outstanding.
pub(crate) const OUTSTANDING: usize = 65_536;

/// The numbers of producers.
const PRODUCERS: [usize; 3] = [1, 2, 4];

/// In a burst the queue may grow to this many tasks, and the memory with it.
const BURST: Work = Work {
    first: 20_000,
    most: 3_000_000,
};

const BOUNDED: Work = Work {
    first: 20_000,
    most: 100_000_000,
};

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let bounded = PRODUCERS.map(|producers| bounded(producers, settings));
    let mut tables = Vec::from(bounded);
    if settings.quick {
        eprintln!("  the burst is left out by --quick: it has no RATIO");
    } else {
        tables.extend(PRODUCERS.map(|producers| burst(producers, settings)));
    }
    tables
}

fn bounded(producers: usize, settings: &Settings) -> Table {
    let ratio = |name, against| Ratio { name, against };
    let heading = Heading {
        title: format!("handoff, {}, at most 65,536 outstanding", crowd(producers)),
        unit: "Mtask/s",
        better: Better::More,
        side: Some("wakeups/1000"),
        ratios: vec![
            ratio(format!("handoff_{producers}p"), Role::Peer),
            ratio(format!("handoff_{producers}p_inline"), Role::Inline),
        ],
    };
    let mut lineup = Lineup::new(producers);
    ours::handoff(&mut lineup);
    lineup.add_bounded_peers();
    rounds::race(heading, BOUNDED, lineup.entries, settings)
}

fn burst(producers: usize, settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("handoff, {}, unbounded burst", crowd(producers)),
        unit: "Mtask/s",
        better: Better::More,
        side: Some("wakeups/1000"),
        ratios: Vec::new(),
    };
    let mut lineup = Lineup::new(producers);
    ours::burst(&mut lineup);
    lineup.add_burst_peers();
    rounds::race(heading, BURST, lineup.entries, settings)
}

fn crowd(producers: usize) -> String {
    match producers {
        1 => "1 producer".to_owned(),
        more => format!("{more} producers"),
    }
}
