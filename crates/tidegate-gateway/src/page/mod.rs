//! The page that shows the gateway live: what it shows, and the file.
//!
//! Pure data: the listener for operators (`admin`) takes samples and sends frames.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `reports` | what the gateway tells about routes, servers, loops, knobs | |
//! | `figures` | the figures of a route at one moment | `reports` |
//! | `series` | the table of all series: names, units, how they are read | `figures` |
//! | `sentence` | one sentence that says what holds a route back | `figures`, `reports` |
//! | `watch` | transitions of breakers and moves of limits between two samples | `figures` |
//! | `track` | one route: its row and ten minutes of history | `series`, `sentence`, `watch` |
//! | `servers` | the servers of upstreams, and the share of each | `series`, `reports` |
//! | `history` | all routes, servers, loops, the log | `track`, `servers` |
//! | `frame` | the snapshot, changes and histories as JSON | `history` |
//! | `file` | `page.html` and its content security policy | |
//!
//! # Adding to the page
//!
//! A series is a row of `series::SERIES`, a kind of event a row of `history::EVENTS`. Both are
//! described in the snapshot, and `page.html` draws what the snapshot describes; CONTRIBUTING.md has an
//! example.

mod figures;
mod file;
mod frame;
mod history;
mod reports;
mod sentence;
mod series;
mod servers;
mod track;
mod watch;

#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod sentence_tests;

pub(crate) use figures::Figures;
pub(crate) use file::{PAGE, POLICY};
pub(crate) use history::{Entry, History, PERIOD, Sample};
pub use reports::{Knob, LoopReport, RouteReport, ServerReport, UpstreamReport};
pub(crate) use watch::{Watch, millis};
