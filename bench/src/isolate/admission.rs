//! A call that is admitted and ended by a handler, beside one that runs at once. Part of suite
//! `client`.

use tidegate_isolate::Command;

use super::guarded::full;
use super::{CHEAP, Failure, by_two, each, heading, isolation, seen, work};
use crate::report::{Role, Table};
use crate::rounds::{self, Settings};

pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![one_thread(settings), two_threads(settings)]
}

fn one_thread(settings: &Settings) -> Table {
    let (admitting, running) = (full(&isolation()), full(&isolation()));
    let lineup = vec![
        each("tidegate admit", Role::Ours, move |n| admit(&admitting, n)),
        each("tidegate run", Role::Peer, move |n| {
            seen(running.run(move |_| work(n)));
        }),
    ];
    let heading = heading(
        "admit beside run, one thread",
        &[("admit_over_run", Role::Peer)],
    );
    rounds::race(heading, CHEAP, lineup, settings)
}

fn two_threads(settings: &Settings) -> Table {
    let (admitting, running) = (full(&isolation()), full(&isolation()));
    let lineup = vec![
        by_two("tidegate admit", Role::Ours, move |count| {
            (0..count).for_each(|n| admit(&admitting, n));
        }),
        by_two("tidegate run", Role::Peer, move |count| {
            for n in 0..count {
                seen(running.run(move |_| work(n)));
            }
        }),
    ];
    let ratios = [("admit_over_run_2threads", Role::Peer)];
    let heading = heading("admit beside run, two threads", &ratios);
    rounds::race(heading, CHEAP, lineup, settings)
}

/// Admits a call, does the work and ends it.
fn admit(command: &Command<u64, Failure>, n: u64) {
    let entry = command.admit().expect("fewer calls than permits");
    let result = work(n);
    let ended = entry.end::<Failure>(result.is_ok());
    seen((result, ended.is_ok()));
}
