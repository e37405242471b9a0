//! Takes a sample of the gateway for the page. May block.

use tidegate::isolate::Isolation;

use super::controls::Controls;
use super::event::Events;
use crate::page::{Entry, Figures, Sample, millis};

/// Takes samples. It remembers which changes were in the last one.
#[derive(Debug, Default)]
pub(super) struct Gather {
    changes: u64,
}

impl Gather {
    /// Takes a sample.
    pub(super) fn sample(
        &mut self,
        controls: &dyn Controls,
        events: &Events,
        time: std::time::SystemTime,
        (is_tick, with_latencies): (bool, bool),
    ) -> Sample {
        let isolation = controls.isolation();
        let (changes, seen) = (events.since(self.changes), events.watch().take());
        self.changes += changes.list.len() as u64 + changes.missed;
        let changes = changes.list.into_iter().map(|change| Entry {
            time_ms: millis(change.at),
            kind: match change.origin.as_str() {
                "health" => "server",
                "watchdog" => "loop",
                _ => "change",
            },
            origin: change.origin,
            what: change.what,
            ..Entry::default()
        });
        Sample {
            time_ms: millis(time),
            is_tick,
            is_ready: controls.is_ready(),
            figures: figures(controls, isolation),
            latencies: match with_latencies {
                true => isolation.latency_totals(),
                false => Vec::new(),
            },
            upstreams: controls.upstreams(),
            loops: controls.loops(),
            knobs: controls.knobs(),
            seen,
            changes: changes.collect(),
        }
    }
}

/// Returns the figures of all routes, ordered by key.
fn figures(controls: &dyn Controls, isolation: &Isolation) -> Vec<Figures> {
    let mut routes = controls.routes();
    routes.sort_by(|a, b| a.name.cmp(&b.name));
    let commands = isolation.snapshots();
    let figures = commands.iter().map(|command| {
        let key = command.key.as_str();
        let route = routes.binary_search_by(|route| route.name.as_str().cmp(key));
        Figures::new(command, route.ok().map(|at| &routes[at]))
    });
    let mut figures: Vec<Figures> = figures.collect();
    figures.sort_by(|a, b| a.key.cmp(&b.key));
    figures
}
