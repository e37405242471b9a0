//! The addresses of names, kept for a time.
//!
//! Uses [`resolve`](crate::resolve). No user code runs under the lock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::{as_nanos, lock};
use tidegate_promise::{Completion, Outcome};

use crate::resolve::{Resolver, ask};

/// The most names that a cache keeps; beyond it, those that are too old are removed.
const MANY_NAMES: usize = 1024;

/// The addresses of each name, and when they are too old.
type Known = HashMap<(String, u16), (Vec<SocketAddr>, u64)>;

/// Returns a resolver that keeps what `resolver` has found for a time. Failures are not kept.
pub(crate) fn cached(resolver: Arc<Resolver>, keep: Duration, clock: Clock) -> Arc<Resolver> {
    let cache = Arc::<Mutex<Known>>::default();
    Arc::new(move |host: &str, port: u16| {
        let (key, now) = ((host.to_owned(), port), clock.nanos());
        if let Some((found, until)) = lock(&cache).get(&key)
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
                if known.len() >= MANY_NAMES {
                    known.retain(|_, (_, until)| now < *until);
                }
                let until = now.saturating_add(as_nanos(keep));
                known.insert(key, (found.clone(), until));
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
