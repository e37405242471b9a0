//! Metrics: what is counted and measured per command.
//!
//! `command_metrics` is what a call writes to. It is made of rolling counts (`window`, over the
//! per-thread counters of `cells`), by event (`event_counts`), and of rolling latencies (`latency`,
//! over `histogram`). Knows events; breakers and bulkheads use the windows for counts of their own.
//!
//! # Invariants
//!
//! * Reading never blocks a writer, and a writer takes no lock that a reader waits for long.
//! * Totals are exact: each outcome is added once, by whoever decided it.
//! * An idle key holds counters only; histograms come with the first call and go when the key has
//!   been idle for a window.

mod cells;
mod command_metrics;
mod config;
mod event_counts;
mod histogram;
mod latency;
mod window;

pub use self::config::MetricsConfig;
pub use self::event_counts::EventCounts;
pub use self::histogram::Distribution;
pub use self::latency::Latencies;
pub use self::window::WindowConfig;

pub(crate) use self::command_metrics::Metrics;
pub(crate) use self::event_counts::Plain;
pub(crate) use self::window::{Counts, Peak};
