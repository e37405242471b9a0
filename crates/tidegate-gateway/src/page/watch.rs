//! What happens between two samples: transitions of breakers and moves of limits.
//!
//! They are recorded by the listeners of the isolation, on the threads of calls, so no short state
//! is lost. The list is bounded: if nothing takes what it holds, the oldest entries are dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use tidegate_core::internal::lock;
use tidegate_isolate::{BreakerState, IsolationBuilder};

use super::figures::STATES;

/// The number of entries that are kept between two samples.
const KEPT: usize = 8192;

/// Something that a route has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) time_ms: u64,
    pub(crate) what: What,
}

/// What a route has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The breaker has gone from a state to another one; see [`STATES`].
    Breaker { from: usize, to: usize },
    /// The adaptive limit has moved. The reason is empty if there is none.
    Limit {
        from: usize,
        to: usize,
        why: &'static str,
    },
}

/// Records what the commands of an isolation report.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<VecDeque<Seen>>,
}

impl Watch {
    /// Adds the listeners to an isolation. `wall` is called on the threads of calls.
    pub(crate) fn observe(
        self: &Arc<Self>,
        isolation: IsolationBuilder,
        wall: &Arc<dyn Fn() -> SystemTime + Send + Sync>,
    ) -> IsolationBuilder {
        let (transitions, moves) = (Arc::clone(self), Arc::clone(self));
        let (first, second) = (Arc::clone(wall), Arc::clone(wall));
        isolation
            .on_transition(move |change| {
                let (from, to) = (position(change.from), position(change.to));
                let key = change.key.as_str().to_owned();
                transitions.add(key, first(), What::Breaker { from, to });
            })
            .on_limit_move(move |change| {
                let what = What::Limit {
                    from: change.from,
                    to: change.to,
                    why: change.reason.map_or("", |reason| reason.word()),
                };
                moves.add(change.key.as_str().to_owned(), second(), what);
            })
    }

    /// Takes what was recorded, the oldest entry first.
    pub(crate) fn take(&self) -> VecDeque<Seen> {
        std::mem::take(&mut *self.lock())
    }

    fn add(&self, key: String, at: SystemTime, what: What) {
        let time_ms = millis(at);
        let mut seen = self.lock();
        if seen.len() == KEPT {
            seen.pop_front();
        }
        seen.push_back(Seen { key, time_ms, what });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Seen>> {
        lock(&self.seen)
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn position(state: BreakerState) -> usize {
    (state as usize).min(STATES.len() - 1)
}

#[cfg(test)]
mod tests {
    //! The listeners, and the bound.

    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use tidegate::ManualClock;
    use tidegate::isolate::{AdaptiveLimit, BreakerConfig, BreakerWindow, Command, Isolation};

    use super::{KEPT, Watch, What};

    #[test]
    fn transitions_and_moves_are_recorded_in_order() {
        let (clock, watch) = (ManualClock::new(), Arc::new(Watch::default()));
        let wall: Arc<dyn Fn() -> SystemTime + Send + Sync> =
            Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_millis(7));
        let isolation = watch.observe(Isolation::builder().clock(&clock), &wall);
        let isolation = isolation.build().unwrap();
        let breaker = BreakerConfig {
            window: BreakerWindow::Count(1),
            min_calls: 1,
            ..BreakerConfig::default()
        };
        let limit = AdaptiveLimit {
            window: None,
            initial: 2,
            min: 1,
            ..AdaptiveLimit::aimd()
        };
        let command = Command::builder("a").group("g").adaptive(limit);
        let command: Command = command.breaker(breaker).build(&isolation).unwrap();
        for verdict in [true, false] {
            let entry = command.admit().unwrap();
            clock.jump(Duration::from_millis(1));
            assert!(entry.verdict(verdict));
        }
        let seen: Vec<_> = watch.take().into_iter().collect();
        let opened = What::Breaker { from: 0, to: 1 };
        assert!(seen.iter().any(|one| one.what == opened), "{seen:?}");
        let moved = |one: &super::Seen| matches!(one.what, What::Limit { from: 2, .. });
        assert!(seen.iter().any(moved), "{seen:?}");
        assert!(
            seen.iter()
                .all(|one| (one.key.as_str(), one.time_ms) == ("a", 7))
        );
        assert!(watch.take().is_empty());
    }

    #[test]
    fn the_oldest_entries_are_dropped() {
        let watch = Watch::default();
        for to in 0..KEPT + 3 {
            let what = What::Limit {
                from: 0,
                to,
                why: "",
            };
            watch.add("a".into(), SystemTime::UNIX_EPOCH, what);
        }
        let seen = watch.take();
        assert_eq!(seen.len(), KEPT);
        assert!(matches!(seen[0].what, What::Limit { to: 3, .. }));
    }
}
