//! The moves of an adaptive limit, and the listeners that are told of them.
//!
//! A move is recorded under the lock of the algorithm, so the list is in the order in which limits
//! took effect. Listeners are user code: they are called later, with no lock held.

use std::fmt;
use std::sync::{Arc, Mutex};

use tidegate_core::{OnUnhandled, Unhandled};

use crate::error::contain;
use crate::key::Key;
use crate::lock::lock;

/// A change of an adaptive limit.
///
/// ```
/// use tidegate_isolate::{Isolation, LimitMove};
///
/// fn line(change: &LimitMove) -> String {
///     let why = change.reason.map_or("", |reason| reason.word());
///     format!("{}: {} to {} {why}", change.key, change.from, change.to)
/// }
///
/// let isolation = Isolation::builder()
///     .on_limit_move(|change| println!("{}", line(change)))
///     .build()?;
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitMove {
    /// The key of the command.
    pub key: Key,
    /// The limit until now.
    pub from: usize,
    /// The limit from now on.
    pub to: usize,
    /// Why it has moved, if the algorithm knows one reason.
    pub reason: Option<LimitReason>,
    /// When, in nanoseconds of the clock.
    pub at_nanos: u64,
}

/// Why an adaptive limit has moved.
///
/// ```
/// use tidegate_isolate::LimitReason;
///
/// assert_eq!(LimitReason::Dropped.word(), "dropped");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitReason {
    /// Calls are as fast as usual, and at least half of the limit is in use: it rises.
    Fast,
    /// Calls take longer than usual, or longer than the algorithm allows: it falls.
    Slow,
    /// By their latency, calls queue in the dependency: it falls.
    Queue,
    /// A call was dropped, for example because it timed out: it falls.
    Dropped,
    /// Fewer calls are let through for a moment, to measure how long they take without a queue, or the
    /// measurement has ended.
    Probe,
    /// The settings have changed.
    Settings,
}

impl LimitReason {
    /// Returns the reason as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
            Self::Queue => "queue",
            Self::Dropped => "dropped",
            Self::Probe => "probe",
            Self::Settings => "settings",
        }
    }
}

impl fmt::Display for LimitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A listener that is called at every move of an adaptive limit.
pub(crate) type OnLimitMove = Arc<dyn Fn(&LimitMove) + Send + Sync>;

/// The moves of one gate that no listener was told of yet.
pub(super) struct Moves {
    key: Key,
    listeners: Vec<OnLimitMove>,
    pending: Mutex<Vec<LimitMove>>,
}

impl Moves {
    pub(super) fn new(key: &Key, listeners: Vec<OnLimitMove>) -> Self {
        Self {
            key: key.clone(),
            listeners,
            pending: Mutex::default(),
        }
    }

    /// Records a move, if there is a listener and the limit has changed.
    pub(super) fn record(
        &self,
        (from, to): (usize, usize),
        reason: Option<LimitReason>,
        at_nanos: u64,
    ) {
        if self.listeners.is_empty() || from == to {
            return;
        }
        let change = LimitMove {
            key: self.key.clone(),
            from,
            to,
            reason,
            at_nanos,
        };
        self.pending().push(change);
    }

    /// Takes the moves that were recorded. The caller must pass them to `call_listeners`.
    pub(super) fn take(&self) -> Vec<LimitMove> {
        match self.listeners.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut *self.pending()),
        }
    }

    /// Calls the listeners, one after the other. A listener that panics is reported and does not
    /// stop the others. Called with no lock held.
    pub(super) fn call_listeners(&self, moves: &[LimitMove], unhandled: &OnUnhandled) {
        for change in moves {
            for listener in &self.listeners {
                if let Err(message) = contain(|| listener(change)) {
                    let message = &*message;
                    unhandled.report(&self.key, &Unhandled::HookPanic { message });
                }
            }
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<LimitMove>> {
        lock(&self.pending)
    }
}

debug_fields!(Moves, this => key: this.key, listeners: this.listeners.len());
