//! Isolation: every dependency behind its own bulkhead.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! A [`Command`] stands for a dependency. It is built once and called often. It limits the damage
//! that the dependency can do to the program:
//!
//! * A *bulkhead* limits how many of the program's resources the dependency may use: permits on the
//!   callers' threads ([`PermitConfig`]), threads of its own ([`PoolConfig`]), or as many calls as
//!   the latency allows ([`AdaptiveLimit`]). The most critical calls are rejected last
//!   ([`Criticality`]).
//! * A *timeout* limits how long a call takes. The work is notified through its `CancelToken`.
//! * A *breaker* stops calls to a dependency that does not respond ([`BreakerConfig`]).
//! * A *fallback* returns a value in place of the work, and receives the cause.
//!
//! Wrappers go around a call and nest in any order: retries within a budget ([`Retry`]), second
//! attempts next to slow ones ([`Hedge`]), a run that equal calls of a request share
//! ([`Call::cache_key`]), a rate limit ([`RateLimit`]). Also: calls without a closure ([`Entry`]),
//! batches ([`Collapser`]), hooks and listeners ([`IsolationBuilder`]), properties with the names
//! of Hystrix ([`Properties`]) and plain snapshots ([`CommandSnapshot`], [`PoolSnapshot`]).
//!
//! ```
//! use std::time::Duration;
//! use tidegate_isolate::{BreakerConfig, Command, Isolation, PoolConfig};
//!
//! let isolation = Isolation::builder().build()?;
//! let prices: Command<u32, std::io::Error> = Command::builder("prices")
//!     .group("catalog")
//!     .threads(PoolConfig { core: 10, queue: 20, ..PoolConfig::default() })
//!     .timeout(Duration::from_millis(250))
//!     .breaker(BreakerConfig::default())
//!     .fallback(|_why| Ok(0))
//!     .build(&isolation)?;
//!
//! let price = prices.run(|_cancel| Ok(42))?; // a blocking caller
//! assert_eq!(price, 42);
//! prices.configure(|c| c.pool.core = 20)?; // live, atomic, validated
//! println!("{}", prices.snapshot());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a call costs
//!
//! With permits, breaker, timeout and metrics, a call that succeeds at once allocates nothing,
//! waits for no lock and reads a cheap clock twice (`FastClock`, whose documentation states its error).
//!
//! # Map of the crate
//!
//! From the lowest to the highest: a module uses only modules that are listed before it. The header
//! of each module says what its files contain.
//!
//! | module | what it is |
//! |---|---|
//! | `key`, `event` | names of commands and pools; the events of a call |
//! | `error` | the error of a call and its causes, invalid settings, caught panics |
//! | `metrics` | the counters and latencies of each command: windows, histograms |
//! | `breaker` | the circuit breaker: when it opens and closes |
//! | `bulkhead` | permits, threads, adaptive limits, queue kinds, partitions |
//! | `rate` | the rate limit |
//! | `config` | all settings of a command, made of the settings of its parts |
//! | `properties` | settings by the names of Hystrix: every property, sources, precedence |
//! | `plugin` | hooks, publishers, propagators |
//! | `cancel` | the handle by which a caller cancels a call |
//! | `request` | the context of a request: variables, log, cache of shared runs |
//! | `in_flight` | a call in flight: which of worker, timer and caller ends it |
//! | `alarm` | the timer: timeouts of calls, timed tasks, threads for callbacks |
//! | `isolation` | the registry: the state of each key, its settings and snapshots, pools |
//! | `command` | a call from admission to its end, and its fallback |
//! | `wrap`, `collapser` | retries, hedges, cache and rate limit around a call; batches |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "wrappers"),
    allow(
        dead_code,
        unused_imports,
        rustdoc::broken_intra_doc_links,
        reason = "what the wrappers use, and the docs of the wrappers"
    )
)]

#[macro_use(debug_fields)]
extern crate tidegate_core;

mod alarm;
mod breaker;
mod bulkhead;
mod cancel;
#[cfg(feature = "wrappers")]
mod collapser;
mod command;
mod config;
mod error;
mod event;
mod in_flight;
#[doc(hidden)]
pub mod internal {
    //! Items for models, benchmarks and adapters of this workspace only. Unstable: they change
    //! without notice.

    pub use crate::breaker::word::{BreakerWord, Phase};
    pub use crate::bulkhead::permits::waiter_word::WaiterWord;
    pub use crate::command::{CallTerms, UntypedCommand};
    pub use crate::in_flight::call_word::{CallWord, EndCause, SeenCall, WorkState};
    pub use crate::in_flight::entry_word::EntryWord;
    #[cfg(feature = "wrappers")]
    pub use crate::wrap::{Retries, RetryPause};
}
mod isolation;
mod key;
mod lock;
mod metrics;
mod plugin;
mod properties;
mod rate;
mod request;
#[cfg(test)]
mod tests;
#[cfg(feature = "wrappers")]
mod wrap;

pub use self::breaker::{
    BreakerConfig, BreakerMode, BreakerOpenError, BreakerState, BreakerTransition, BreakerWindow,
    CircuitBreaker, Pass,
};
pub use self::bulkhead::{
    AdaptiveLimit, Bulkhead, ConcurrencyStrategy, Criticality, LimitAlgorithm, LimitMove,
    LimitReason, Partitions, PermitConfig, PoolConfig, PoolSnapshot, QueueDiscipline, SampleWindow,
};
pub use self::cancel::{CallHandle, CancelOutcome, Interrupt};
#[cfg(feature = "wrappers")]
pub use self::collapser::{Collapser, CollapserConfig, CollapserError, CollapserScope};
pub use self::command::{Call, Command, CommandBuilder, Entry, PendingEntry, Verdict};
pub use self::config::CommandConfig;
pub use self::error::{Cause, CommandError, ConfigError, FallbackError, Rejection};
pub use self::event::{Event, EventSet};
pub use self::isolation::{CommandSnapshot, Isolation, IsolationBuilder, ShutdownReport};
pub use self::key::Key;
pub use self::metrics::{
    Distribution, EventCounts, Latencies, LatencyTotals, MetricsConfig, WindowConfig,
};
pub use self::plugin::CallStage;
pub use self::properties::{
    ChangeListener, Origin, PREFIX, Properties, PropertySource, Setting, Settings,
};
pub use self::rate::RateConfig;
pub use self::request::{
    Entered, InContext, LogEntry, MOST_LOGGED, NoContextError, RequestContext, RequestVariable,
};
#[cfg(feature = "wrappers")]
pub use self::wrap::{Attempts, Hedge, RateLimit, Retry, RetryBudget};
pub use tidegate_core::permits::{Permit, PermitRef, Permits};
pub use tidegate_pool::Growth;
