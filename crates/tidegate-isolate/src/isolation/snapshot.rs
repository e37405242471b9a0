//! A snapshot of a command's figures, as plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::state::State;
use crate::breaker::BreakerState;
use crate::bulkhead::Bulkhead;
use crate::config::CommandConfig;
use crate::event::Event;
use crate::key::Key;
use crate::metrics::{EventCounts, Latencies};

/// The figures of a command at one moment.
///
/// ```
/// use tidegate_isolate::{Command, Event, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// prices.run(|_| Ok(1)).unwrap();
/// let snapshot = prices.snapshot();
/// assert_eq!(snapshot.totals[Event::Success], 1);
/// assert!(snapshot.to_string().starts_with("prices: closed, 0/10 active"));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandSnapshot {
    /// The key.
    pub key: Key,
    /// The group.
    pub group: Key,
    /// The pool that provides its threads.
    pub pool: Key,
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// Whether its breaker rejects calls.
    pub is_open: bool,
    /// How often its breaker entered the states closed, open, half open and ramping.
    pub breaker_entered: [u64; 4],
    /// The total time that its breaker spent closed, open, half open and ramping.
    pub breaker_times: [Duration; 4],
    /// Calls that are running now.
    pub active: usize,
    /// The largest number of calls that ran at the same time within the window.
    pub peak: u64,
    /// The largest number of calls that may run at the same time.
    pub limit: usize,
    /// The current adaptive limit, if there is one. It limits running calls or, with threads, calls
    /// that are queued or running.
    pub adaptive_limit: Option<usize>,
    /// Calls that wait for a permit.
    pub waiting: usize,
    /// Calls that hold their permit although their outcome was reported, because they timed out or
    /// their caller left. See [`Entry`](crate::Entry). For threads, see
    /// [`PoolSnapshot::overstaying`](crate::PoolSnapshot::overstaying).
    pub overstaying: usize,
    /// How long the oldest of these calls has been overstaying.
    pub oldest_overstaying: Option<Duration>,
    /// Fallbacks that are running now.
    pub fallbacks: usize,
    /// Events in the window, including the current bucket.
    pub window: EventCounts,
    /// Events in the closed buckets of the window.
    pub closed: EventCounts,
    /// Events since the key was created.
    pub totals: EventCounts,
    /// Waiting, running and total times, in the latency window.
    pub latencies: Latencies,
    /// The settings in force.
    pub config: Arc<CommandConfig>,
    /// Calls, batches and hooks of cancel tokens that were rejected because too many of them waited
    /// for the command's callback threads.
    pub callbacks_refused: u64,
    /// Bytes of memory that the key holds only while it is in use.
    pub lent_bytes: usize,
}

impl CommandSnapshot {
    pub(crate) fn of(state: &State) -> Self {
        let now = state.now();
        let running = state.running.load(std::sync::atomic::Ordering::Relaxed);
        let config = state.config();
        let (overstaying, since) = state.gate.overstaying.read();
        let threads = state.threads.get();
        let threads = threads.filter(|_| config.bulkhead == Bulkhead::Threads);
        // With an adaptive limit, a call on threads also holds a permit and must be counted once.
        // Right after a change of the bulkhead kind, calls of the previous kind are still running.
        let active = match threads {
            Some(_) if config.permits.adaptive.is_some() => running,
            _ => running + state.gate.held(),
        };
        Self {
            key: state.key.clone(),
            group: state.group.clone(),
            pool: state.pool.clone(),
            breaker: state.breaker.state(now),
            is_open: state.breaker.is_open(now),
            breaker_entered: state.breaker.transitions(),
            breaker_times: state.breaker.time_in_states(now),
            active,
            peak: state.metrics.peak(now, active as u64),
            limit: match threads {
                Some(pool) => pool.config().effective_max(),
                None => state.gate.limit(),
            },
            adaptive_limit: config.permits.adaptive.as_ref().map(|_| state.gate.limit()),
            waiting: state.gate.waiting(),
            overstaying,
            oldest_overstaying: since.map(|since| Duration::from_nanos(now.saturating_sub(since))),
            fallbacks: state.fallback_permits.held(),
            window: state.metrics.rolling(now),
            closed: state.metrics.closed(now),
            totals: state.metrics.totals(),
            latencies: state.metrics.latencies(now),
            config,
            callbacks_refused: state.aside.refused(),
            lent_bytes: state.metrics.lent_bytes(),
        }
    }
}

impl fmt::Display for CommandSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.breaker.words();
        let rejected = self.window[Event::PermitsRejected] + self.window[Event::PoolRejected];
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        write!(
            f,
            "{}: {state}, {}/{} active, {} ok, {} failed, {} timed out, {rejected} rejected, \
             {} short-circuited, {}% errors, p50 {:.3} ms, p99 {:.3} ms",
            self.key,
            self.active,
            self.limit,
            self.window[Event::Success],
            self.window[Event::Failure],
            self.window[Event::Timeout],
            self.window[Event::ShortCircuited],
            self.window.error_percent(),
            ms(self.latencies.total.percentile(50.0)),
            ms(self.latencies.total.percentile(99.0)),
        )
    }
}
