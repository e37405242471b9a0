//! The load generator: the command `bench`, the load of the demo, and that of the benchmarks, for which
//! some of it is public.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `schedule` | when each request is due; pure data | |
//! | `ramp` | when a rising rate has gone too far; pure data | |
//! | `tally` | what became of the requests, and their times | |
//! | `target` | the URL, the bytes of a request | |
//! | `lane` | the connections of one loop, and the requests that are due on them | `schedule`, `tally`, `target` |
//! | `caller` | the handler of a connection | `lane` |
//! | `result` | the result of a run | `tally`, `ramp` |
//! | `summary`, `plot`, `report` | the result as text, as SVG, as JSON | `result` |
//! | `arguments` | the options of the command | `schedule` |
//! | `run` | the command | all above |
//!
//! # Coordinated omission
//!
//! A generator that waits for a response before it sends the next request sends nothing while the
//! server stands still, and so hardly measures that time. Here an open-loop request has a planned
//! time, which does not depend on responses, and its response time counts from then. A closed loop
//! has no plan: its percentiles are corrected afterwards, as HdrHistogram does.

mod arguments;
mod caller;
mod lane;
mod plot;
mod ramp;
mod report;
mod result;
mod run;
mod schedule;
mod summary;
mod tally;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use arguments::{BenchArguments, time};
pub use lane::{Lane, LaneSettings, WhenDone};
pub(crate) use run::bench;
pub(crate) use schedule::nanos;
pub use schedule::{Dispatch, Shape};
pub(crate) use summary::short_time;
pub(crate) use tally::Tally;
pub use tally::{Counts, Histogram};
pub use target::Target;
#[cfg(test)]
pub(crate) use {
    schedule::Due,
    tally::{Ended, Outcome},
};
