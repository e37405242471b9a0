//! The addresses of names, kept for a time.
//!
//! Uses [`resolve`](crate::resolve). No user code runs under the lock.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::{as_nanos, lock};
use tidegate_promise::{Completion, Outcome};

use crate::resolve::{Resolver, ask};

/// The most names that a cache keeps. Beyond it, those that were found first are removed.
const MOST_NAMES: usize = 1024;

/// A host and a port.
type Name = (String, u16);

/// What was found, for so long that all of it gets too old in the order in which it was found.
#[derive(Default)]
struct Known {
    /// The addresses of each name, and when they are too old.
    names: HashMap<Name, (Vec<SocketAddr>, u64)>,
    /// The names and these times, oldest first; a name that was found twice is there twice.
    order: VecDeque<(Name, u64)>,
}

impl Known {
    /// Adds what was found at `now`, and removes what is too old or too much.
    fn add(&mut self, name: Name, found: Vec<SocketAddr>, now: u64, until: u64) {
        self.order.push_back((name.clone(), until));
        self.names.insert(name, (found, until));
        while let Some((name, until)) = self.order.front()
            && (*until <= now || self.order.len() > MOST_NAMES)
        {
            if self.names.get(name).is_some_and(|(_, last)| last == until) {
                self.names.remove(name);
            }
            self.order.pop_front();
        }
    }
}

/// Returns a resolver that keeps what `resolver` has found for a time. Failures are not kept.
pub(crate) fn cached(resolver: Arc<Resolver>, keep: Duration, clock: Clock) -> Arc<Resolver> {
    let cache = Arc::<Mutex<Known>>::default();
    Arc::new(move |host: &str, port: u16| {
        let (key, now) = ((host.to_owned(), port), clock.nanos());
        if let Some((found, until)) = lock(&cache).names.get(&key)
            && now < *until
        {
            return Completion::succeeded(found.clone());
        }
        let asked = ask(&*resolver, host, port);
        let (cache, clock) = (Arc::clone(&cache), clock.clone());
        asked.on_complete(move |outcome| {
            if let Outcome::Success(found) = outcome
                && !found.is_empty()
            {
                let (mut known, now) = (lock(&cache), clock.nanos());
                let until = now.saturating_add(as_nanos(keep));
                known.add(key, found.clone(), now, until);
            }
        });
        asked
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::ManualClock;
    use tidegate_promise::{Failure, Promise, promise};
    use tidegate_testkit::Log;

    use super::*;

    const KEEP: Duration = Duration::from_secs(30);

    #[test]
    fn a_name_is_kept_for_a_time_and_a_failure_is_not() {
        let clock = ManualClock::new();
        let (asked, log) = Log::<Promise<Vec<SocketAddr>>>::pair();
        let resolver = move |_: &str, _: u16| {
            let (promise, found) = promise();
            log.push(promise);
            found
        };
        let cached = cached(Arc::new(resolver), KEEP, Clock::from(&clock));
        let local = vec![SocketAddr::from(([127, 0, 0, 1], 1))];
        let first = cached("a", 1);
        asked.take().remove(0).succeed(local.clone()).unwrap();
        assert_eq!(first.wait().unwrap(), local);
        clock.advance(KEEP / 2);
        assert_eq!(cached("a", 1).wait().unwrap(), local);
        assert!(asked.is_empty());

        clock.advance(KEEP / 2);
        let again = cached("a", 1);
        let why = Failure::new("no such name".to_owned());
        asked.take().remove(0).fail(why).unwrap();
        assert!(again.wait().is_err());
        drop(cached("a", 1));
        assert_eq!(asked.take().len(), 1, "a failure is not kept");
    }

    #[test]
    fn a_cache_keeps_a_bounded_number_of_names_for_their_time() {
        let mut known = Known::default();
        let name = |number: u64| (number.to_string(), 1);
        let (most, keep) = (MOST_NAMES as u64, 1_000_000);
        for now in 0..3 * most {
            known.add(name(now), Vec::new(), now, now + keep);
            // It is found again and again.
            known.add(name(u64::MAX), Vec::new(), now, now + keep);
            assert!(known.names.len() <= MOST_NAMES && known.order.len() <= MOST_NAMES);
        }
        for (number, kept) in [(0, false), (3 * most - 1, true), (u64::MAX, true)] {
            assert_eq!(known.names.contains_key(&name(number)), kept, "{number}");
        }
        let late = 3 * most + keep;
        known.add(name(7), Vec::new(), late - keep / 2, late + keep / 2);
        known.add(name(0), Vec::new(), late, late + keep);
        let mut left: Vec<_> = known.names.into_keys().collect();
        left.sort();
        assert_eq!(left, [name(0), name(7)], "the others are too old");
    }

    #[test]
    fn a_resolver_that_panics_is_a_failure_each_time() {
        let clock = ManualClock::new();
        let resolver = |_: &str, _: u16| panic!("no names today");
        let cached = cached(Arc::new(resolver), KEEP, Clock::from(&clock));
        for _ in 0..2 {
            let why = cached("a", 1).wait().unwrap_err();
            assert!(why.to_string().contains("no names today"), "{why}");
        }
    }
}
