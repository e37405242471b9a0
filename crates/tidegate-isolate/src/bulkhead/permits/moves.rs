//! The moves of an adaptive limit, and the listeners that are told of them.
//!
//! A move is recorded under the lock of the algorithm, so the list is in the order in which limits
//! took effect. Listeners are user code: they are called later, with no lock held, by one thread at a
//! time. Moves that come meanwhile are left to that thread, so listeners are called in the same order.

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
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    moves: Vec<LimitMove>,
    /// A thread calls the listeners, and takes the moves that come meanwhile.
    is_telling: bool,
}

/// So many moves wait for a listener that does not return. Further ones are joined with the last.
const MOST_PENDING: usize = 1_000;

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
        let mut change = LimitMove {
            key: self.key.clone(),
            from,
            to,
            reason,
            at_nanos,
        };
        let mut pending = lock(&self.pending);
        if pending.moves.len() >= MOST_PENDING
            && let Some(last) = pending.moves.pop()
        {
            change.from = last.from;
        }
        pending.moves.push(change);
    }

    /// Returns `true` if there are moves to tell.
    pub(super) fn are_pending(&self) -> bool {
        !self.listeners.is_empty() && !lock(&self.pending).moves.is_empty()
    }

    /// Calls the listeners with the recorded moves, one after the other, unless another thread does. A
    /// listener that panics is reported and does not stop the others. Called with no lock held.
    pub(super) fn tell(&self, unhandled: &OnUnhandled) {
        if self.listeners.is_empty() {
            return;
        }
        let mut is_this = false;
        while let Some(moves) = self.take(is_this) {
            is_this = true;
            for change in &moves {
                for listener in &self.listeners {
                    if let Err(message) = contain(|| listener(change)) {
                        let message = &*message;
                        unhandled.report(&self.key, &Unhandled::HookPanic { message });
                    }
                }
            }
        }
    }

    /// Takes the recorded moves, if there are any, for the thread that calls the listeners: the one that
    /// does already (`is_this`), or this one if there is none.
    fn take(&self, is_this: bool) -> Option<Vec<LimitMove>> {
        let mut pending = lock(&self.pending);
        if pending.is_telling && !is_this {
            return None;
        }
        let moves = std::mem::take(&mut pending.moves);
        pending.is_telling = !moves.is_empty();
        pending.is_telling.then_some(moves)
    }
}

debug_fields!(Moves, this => key: this.key, listeners: this.listeners.len());

#[cfg(test)]
mod tests {
    //! Listeners are called in the order of the moves, also if their threads are not.

    use tidegate_testkit::{Gate, Log};

    use super::*;

    fn record(moves: &Moves, to: usize) {
        moves.record((to - 1, to), Some(LimitReason::Fast), 0);
    }

    #[test]
    fn a_thread_leaves_its_move_to_the_one_that_calls_the_listeners() {
        let (inside, go_on, log) = (Gate::new(), Gate::new(), Log::new());
        let (opens, waits, told) = (inside.clone(), go_on.clone(), log.clone());
        let listener: OnLimitMove = Arc::new(move |change| {
            if change.to == 1 {
                opens.open();
                waits.wait();
            }
            told.push((change.from, change.to));
            assert_ne!(change.to, 1, "a panic stops no other");
        });
        let (moves, unhandled) = (
            Moves::new(&"a".into(), vec![listener]),
            OnUnhandled::default(),
        );
        record(&moves, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| moves.tell(&unhandled));
            inside.wait();
            let more = MOST_PENDING + 9;
            for to in 2..more {
                record(&moves, to);
                moves.tell(&unhandled);
            }
            assert!(log.is_empty(), "the first listener has not returned");
            go_on.open();
            log.wait_for(1 + MOST_PENDING);
            let told = log.take();
            assert!(told.is_sorted() && told[..2] == [(0, 1), (1, 2)]);
            assert_eq!(told[MOST_PENDING], (MOST_PENDING, more - 1), "joined");
        });
        assert!(!moves.are_pending());
        record(&moves, 2);
        moves.tell(&unhandled);
        assert_eq!(log.take(), [(1, 2)]);
    }
}
