//! Isolation: every dependency behind its own bulkhead.
#![forbid(unsafe_code)]

mod alarm;
mod breaker;
mod bulkhead;
mod collapser;
mod command;
mod config;
mod context;
mod error;
mod event;
mod hedge;
mod isolation;
mod key;
mod metrics;
mod plugin;
mod properties;
mod rate;
mod retry;
mod snapshot;

pub use self::breaker::{
    BreakerConfig, BreakerMode, BreakerState, BreakerWindow, CircuitBreaker, Open, Pass, Transition,
};
pub use self::bulkhead::{
    AdaptiveLimit, Criticality, Discipline, LimitAlgorithm, Partitions, PermitConfig, PoolSnapshot,
    SampleWindow,
};
pub use self::collapser::{CollapseError, CollapseScope, Collapser, CollapserConfig};
pub use self::command::{Call, Command, CommandBuilder, RunAsync};
pub use self::config::{Bulkhead, CommandConfig, PoolConfig, RateConfig};
pub use self::context::{Entered, Logged, MOST_LOGGED, NoContext, RequestContext, RequestVariable};
pub use self::error::{Cause, CommandError, FallbackError, Invalid, Refused};
pub use self::event::{Event, Events};
pub use self::hedge::{Hedge, RunHedged};
pub use self::isolation::{Isolation, IsolationBuilder};
pub use self::key::Key;
pub use self::metrics::{Distribution, EventCounts, Latencies, MetricsConfig, WindowConfig};
pub use self::plugin::{Hook, Install, MetricsPublisher, Propagator, Restore, Stage};
pub use self::properties::{ChangeListener, PREFIX, Properties, PropertySource};
pub use self::retry::{Retry, RetryBudget};
pub use self::snapshot::CommandSnapshot;
pub use tidegate_exec::Growth;
