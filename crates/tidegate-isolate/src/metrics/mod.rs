//! Metrics: the counters and latencies of each command.
//!
//! A call writes to `command_metrics`. This consists of rolling counts (`window`, over the
//! per-thread counters of `cells`), by event (`event_counts`), and of rolling latencies (`latency`,
//! over `histogram`). `cumulative` sums up the latencies that left the window. This module uses events; breakers and bulkheads use the windows for their own
//! counts.
//!
//! # Invariants
//!
//! * Reading never blocks a writer, and a writer never keeps a reader waiting long for a lock.
//! * Totals are exact: each outcome is added once, by the thread that decided it.
//! * An idle key holds counters only. Histograms are created with the first call and freed when the
//!   key has been idle for a window.

mod cells;
mod command_metrics;
mod config;
mod cumulative;
mod event_counts;
mod histogram;
mod latency;
mod window;

pub use self::config::MetricsConfig;
pub use self::cumulative::LatencyTotals;
pub use self::event_counts::EventCounts;
pub use self::histogram::Distribution;
pub use self::latency::Latencies;
pub use self::window::WindowConfig;
pub(crate) use self::window::WindowPart;

pub(crate) use self::command_metrics::Metrics;
pub(crate) use self::cumulative::Cumulative;
pub(crate) use self::event_counts::PlainRejection;
pub(crate) use self::window::{Counts, Peak};
