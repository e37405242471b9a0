//! What the tests share.

use tidegate_isolate::{Command, CommandBuilder, Event, Events, Isolation};
use tidegate_sync::ManualClock;

/// What the work of the tests answers, or fails with.
pub(crate) type Numbers = Command<u32, &'static str>;

/// An isolation on a clock that stands still.
pub(crate) fn still() -> (ManualClock, Isolation) {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    (clock, isolation)
}

pub(crate) fn builder(key: &str) -> CommandBuilder<u32, &'static str> {
    Command::builder(key).group("tests")
}

/// Every kind that was counted, with its number.
pub(crate) fn counted(command: &Numbers) -> Vec<(Event, u64)> {
    let totals = command.snapshot().totals;
    totals.iter().filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn events(list: &[Event]) -> Events {
    Events::of(list)
}
