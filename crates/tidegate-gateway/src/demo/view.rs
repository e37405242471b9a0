//! The live view: samples the load and the routes, and draws the table.

use std::io::{self, Write};
use std::time::Duration;

use tidegate::isolate::{BreakerMode, BreakerState, Isolation};

use super::keys::Keys;
use super::switches::Switches;
use super::table::{Guard, OpenSince, live};
use super::upstreams::NAMES;
use crate::load::{Counts, Lane};
use crate::screen::{Painter, Size, too_narrow};

/// The live view.
pub(crate) struct View {
    pub(crate) keys: Keys,
    has_keys: bool,
    painter: Painter,
    rows: Vec<(Counts, Guard)>,
    seconds: f64,
    open: Vec<OpenSince>,
}

impl View {
    pub(crate) fn new(has_keys: bool) -> Self {
        Self {
            keys: Keys::default(),
            has_keys,
            painter: Painter::default(),
            rows: vec![(Counts::default(), Guard::default()); NAMES.len()],
            seconds: 1.0,
            open: vec![OpenSince::default(); NAMES.len()],
        }
    }

    /// Takes what has ended since the last sample, and the state of each route.
    pub(crate) fn sample(&mut self, lane: &Lane, isolation: &Isolation, since: Duration) {
        self.seconds = since.as_secs_f64();
        let commands = isolation.snapshots();
        for (at, counts) in lane.take_recent().into_iter().enumerate() {
            let mut found = commands.iter();
            let found = found.find(|command| command.key.as_str() == NAMES[at]);
            let guard = found.map_or(Guard::default(), |command| {
                let breaker = &command.config.breaker;
                let was_open =
                    self.open[at].update(command.breaker_entered[1], command.breaker_times[1]);
                let is_open = command.breaker == BreakerState::Open;
                Guard {
                    active: command.active,
                    limit: command.adaptive_limit.unwrap_or(command.limit),
                    state: (breaker.mode != BreakerMode::Disabled).then_some(command.breaker),
                    probe_in: is_open.then(|| breaker.sleep.saturating_sub(was_open)),
                }
            });
            self.rows[at] = (counts, guard);
        }
    }

    /// Draws the table: in place in a terminal, below the last one elsewhere.
    pub(crate) fn draw(
        &mut self,
        switches: &Switches,
        note: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rows = NAMES.iter().zip(&self.rows);
        let rows: Vec<_> = rows
            .map(|(name, (counts, guard))| (*name, counts, *guard))
            .collect();
        let mut lines = live(&rows, self.seconds);
        lines.push(String::new());
        let Some(size) = Size::of_output() else {
            let text = lines.join("\n");
            return writeln!(out, "{text}").and_then(|()| out.flush());
        };
        lines.push(switches.state());
        if self.has_keys {
            lines.extend(self.keys.help());
        }
        lines.extend(note.map(str::to_owned));
        let lines = too_narrow(size).unwrap_or(lines);
        let text = self.painter.paint(&lines, size);
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }
}
