//! Suite `handoff`: 1, 2 and 4 producers into one loop, million tasks a second.
//!
//! Every task is a closure of two captured words; at most 65,536 are outstanding. A contestant's
//! set-up determines what enforces that bound ([`crate::contest::Limit`]). Where both ways are
//! possible, both are rows, so that the best peer always runs in its best set-up.

mod drive;
mod lane;
mod lineup;

pub(crate) use lineup::Lineup;

use crate::ours;
use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{self, Settings, Work};

/// The maximum number of outstanding tasks.
pub(crate) const OUTSTANDING: usize = 65_536;

/// The numbers of producers.
const PRODUCERS: [usize; 3] = [1, 2, 4];

const BOUNDED: Work = Work {
    first: 20_000,
    most: 100_000_000,
};

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    Vec::from(PRODUCERS.map(|producers| bounded(producers, settings)))
}

fn bounded(producers: usize, settings: &Settings) -> Table {
    let heading = Heading {
        title: format!("handoff, {}, at most 65,536 outstanding", crowd(producers)),
        unit: "Mtask/s",
        better: Better::More,
        side: Some("wakeups/1000"),
        ratios: vec![
            Ratio::new(format!("handoff_{producers}p"), Role::Peer),
            Ratio::new(format!("handoff_{producers}p_inline"), Role::Inline),
        ],
    };
    let mut lineup = Lineup::new(producers);
    ours::handoff(&mut lineup);
    lineup.add_bounded_peers();
    rounds::race(heading, BOUNDED, lineup.entries, settings)
}

fn crowd(producers: usize) -> String {
    match producers {
        1 => "1 producer".to_owned(),
        more => format!("{more} producers"),
    }
}
