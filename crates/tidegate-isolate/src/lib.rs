//! Isolation: every dependency behind its own bulkhead.
#![forbid(unsafe_code)]

mod alarm;
mod breaker;
mod bulkhead;
mod config;
mod error;
mod event;
mod key;
mod metrics;
mod properties;

pub use self::breaker::{
    BreakerConfig, BreakerMode, BreakerState, BreakerWindow, CircuitBreaker, Open, Pass, Transition,
};
pub use self::bulkhead::{
    AdaptiveLimit, Criticality, Discipline, LimitAlgorithm, Partitions, PermitConfig, SampleWindow,
};
pub use self::config::{Bulkhead, CommandConfig, PoolConfig, RateConfig};
pub use self::error::{Cause, CommandError, FallbackError, Invalid, Refused};
pub use self::event::{Event, Events};
pub use self::key::Key;
pub use self::metrics::{Distribution, EventCounts, Latencies, MetricsConfig, WindowConfig};
pub use self::properties::{ChangeListener, PREFIX, Properties, PropertySource};
