//! The log of a request: the calls that it made, and how each ended.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::event::EventSet;
use crate::key::Key;
use crate::lock::lock;

/// The largest number of calls in the log of a request.
pub const MOST_LOGGED: usize = 1000;

/// A call in the log of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The key of the command.
    pub command: Key,
    /// The events of the call.
    pub events: EventSet,
    /// The duration of the call.
    pub took: Duration,
}

/// The calls of a request, oldest first, at most [`MOST_LOGGED`].
#[derive(Default)]
pub(super) struct Log {
    calls: Mutex<Vec<LogEntry>>,
    dropped: AtomicU64,
}

impl Log {
    pub(super) fn add(&self, call: LogEntry) {
        let mut calls = lock(&self.calls);
        if calls.len() < MOST_LOGGED {
            calls.push(call);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn calls(&self) -> Vec<LogEntry> {
        lock(&self.calls).clone()
    }

    /// Returns the number of calls that did not fit.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the log as one line. Calls of the same command with the same events are listed once,
    /// with their number and the sum of their times.
    pub(super) fn text(&self) -> String {
        let mut groups: Vec<(Key, EventSet, Duration, u32)> = Vec::new();
        for call in self.calls() {
            let same = |group: &&mut (Key, EventSet, Duration, u32)| {
                group.0 == call.command && group.1 == call.events
            };
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.2 += call.took;
                    group.3 += 1;
                }
                None => groups.push((call.command, call.events, call.took, 1)),
            }
        }
        let mut text = String::new();
        for (command, events, took, count) in groups {
            if !text.is_empty() {
                text.push_str(", ");
            }
            // A write to a string does not fail.
            let _ = write!(text, "{command}{events}[{}ms]", took.as_millis());
            if count > 1 {
                let _ = write!(text, "x{count}");
            }
        }
        text
    }
}
