//! Metrics for Prometheus, and the event streams of Hystrix.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html), with the
//! feature `metrics`.
//!
//! An [`Exporter`] writes the metrics of everything that implements [`Collect`]: event loops,
//! groups, pools, timers, servers, commands, isolations, and types of the program.
//!
//! ```
//! use tidegate_isolate::{Command, Isolation};
//! use tidegate_metrics::Exporter;
//!
//! let isolation = Isolation::builder().build()?;
//! let prices: Command<u32, String> =
//!     Command::builder("prices").group("catalog").build(&isolation)?;
//! prices.run(|_| Ok(1)).unwrap();
//!
//! let exporter = Exporter::new();
//! exporter.add(isolation);
//! let text = exporter.encode(); // for the response to `GET /metrics`
//! let success = r#"tidegate_command_events_total{command="prices",group="catalog",event="SUCCESS"} 1"#;
//! assert!(text.lines().any(|line| line == success));
//! # Ok::<(), tidegate_isolate::ConfigError>(())
//! ```
//!
//! A [`HystrixStream`] writes `hystrix.stream` and its sister streams, which the Hystrix dashboard
//! reads.
//!
//! | file | content |
//! |---|---|
//! | `samples` | the collected metrics, checked and grouped by name |
//! | `plain` | the text format of Prometheus |
//! | `exporter` | [`Exporter`]; OpenMetrics by `prometheus-client` |
//! | `hystrix` | [`HystrixStream`]; does not use the other files |
#![forbid(unsafe_code)]

mod exporter;
mod hystrix;
mod plain;
mod samples;

pub use self::exporter::Exporter;
pub use self::hystrix::HystrixStream;
pub use tidegate_core::{Collect, Metric, MetricVisitor};
