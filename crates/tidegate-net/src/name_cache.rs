//! The addresses of names, kept for a time.
//!
//! Uses [`resolve`](crate::resolve).
//!
//! # Invariants
//!
//! * No user code runs under the lock: neither the resolver nor a listener of a promise.
//! * A lookup that does not end blocks no later one: after a time the name is looked up again, and
//!   only a bounded number of connects waits for one lookup.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::lock;
use tidegate_promise::{Completion, Failure, Promise, promise};

use crate::awaited::result;
use crate::resolve::{RESOLVE_TIMEOUT, Resolver, ask};

/// The most names that a cache keeps; beyond it, those that are too old are removed.
const MANY_NAMES: usize = 1024;
/// How many connects wait for one lookup; further ones look the name up themselves.
const MOST_WAITING: usize = 1024;

/// Returns a resolver that keeps what `resolver` has found for a time. Lookups of one name at the
/// same time are one lookup. Failures are not kept.
pub(crate) fn cached(resolver: Arc<Resolver>, keep: Duration, clock: Clock) -> Arc<Resolver> {
    let cache = Arc::new(Cache {
        keep: nanos(keep),
        clock,
        names: Mutex::default(),
    });
    Arc::new(move |host: &str, port: u16| cache.find(&*resolver, host, port))
}

struct Cache {
    /// In nanoseconds.
    keep: u64,
    clock: Clock,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    known: HashMap<(String, u16), Known>,
    /// The number of the last lookup.
    last: u64,
}

enum Known {
    /// The addresses, and until when they are used.
    Found(Vec<SocketAddr>, u64),
    Asked(Asked),
}

/// A lookup in progress.
struct Asked {
    number: u64,
    since: u64,
    waiting: Vec<Promise<Vec<SocketAddr>>>,
}

/// What to do for a connect.
enum Next {
    Known(Completion<Vec<SocketAddr>>),
    /// Look the name up; the number of the lookup.
    Ask(u64, Completion<Vec<SocketAddr>>),
    /// Look it up without the cache.
    Alone,
}

impl Cache {
    fn find(
        self: &Arc<Self>,
        resolver: &Resolver,
        host: &str,
        port: u16,
    ) -> Completion<Vec<SocketAddr>> {
        let key = (host.to_owned(), port);
        match self.next(&key) {
            Next::Known(found) => found,
            Next::Alone => ask(resolver, host, port),
            Next::Ask(number, found) => {
                let this = Arc::clone(self);
                ask(resolver, host, port).finally(move |outcome| {
                    this.found(key, number, &result(outcome).cloned());
                });
                found
            }
        }
    }

    fn next(&self, key: &(String, u16)) -> Next {
        let now = self.clock.nanos();
        let mut names = self.lock();
        let Names { known, last } = &mut *names;
        let mut earlier = Vec::new();
        match known.get_mut(key) {
            Some(Known::Found(found, until)) if now < *until => {
                return Next::Known(Completion::succeeded(found.clone()));
            }
            Some(Known::Asked(asked)) => {
                if now.saturating_sub(asked.since) < nanos(RESOLVE_TIMEOUT) {
                    if asked.waiting.len() >= MOST_WAITING {
                        return Next::Alone;
                    }
                    let (promise, found) = promise();
                    asked.waiting.push(promise);
                    return Next::Known(found);
                }
                earlier = std::mem::take(&mut asked.waiting);
            }
            _ => {}
        }
        if known.len() >= MANY_NAMES {
            known.retain(|_, known| match known {
                Known::Found(_, until) => now < *until,
                Known::Asked(_) => true,
            });
        }
        *last += 1;
        let (promise, found) = promise();
        let mut waiting = earlier;
        waiting.push(promise);
        let asked = Asked {
            number: *last,
            since: now,
            waiting,
        };
        known.insert(key.clone(), Known::Asked(asked));
        Next::Ask(*last, found)
    }

    /// Uses the result of lookup `number`.
    fn found(&self, key: (String, u16), number: u64, result: &Result<Vec<SocketAddr>, Failure>) {
        let until = self.clock.nanos().saturating_add(self.keep);
        let mut names = self.lock();
        let current = match names.known.get(&key) {
            Some(Known::Asked(asked)) => asked.number == number,
            _ => false,
        };
        let before = match result {
            Ok(found) if !found.is_empty() => {
                let found = Known::Found(found.clone(), until);
                names.known.insert(key, found)
            }
            // A later lookup may still succeed.
            _ if current => names.known.remove(&key),
            _ => None,
        };
        drop(names);
        if let Some(Known::Asked(asked)) = before {
            for promise in asked.waiting {
                // Its reader may have left.
                let _ = promise.complete(result.clone());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Names that are kept, with a resolver that the test controls.

    use tidegate_core::ManualClock;
    use tidegate_testkit::Log;

    use super::*;

    const KEEP: Duration = Duration::from_secs(30);

    type Questions = Log<Promise<Vec<SocketAddr>>>;

    fn fixture() -> (ManualClock, Questions, Arc<Resolver>) {
        let clock = ManualClock::new();
        let asked = Questions::new();
        let log = asked.clone();
        let resolver = move |_: &str, _: u16| {
            let (promise, found) = promise();
            log.push(promise);
            found
        };
        let cached = cached(Arc::new(resolver), KEEP, Clock::from(&clock));
        (clock, asked, cached)
    }

    fn local(last: u8) -> Vec<SocketAddr> {
        vec![([127, 0, 0, last], 1).into()]
    }

    #[test]
    fn a_name_is_kept_for_a_time_and_asked_for_once() {
        let (clock, asked, cached) = fixture();
        let (first, second) = (cached("a", 1), cached("a", 1));
        let mut questions = asked.take();
        assert_eq!(questions.len(), 1, "both wait for one lookup");
        questions.remove(0).succeed(local(1)).unwrap();
        assert_eq!(first.wait().unwrap(), local(1));
        assert_eq!(second.wait().unwrap(), local(1));
        clock.advance(KEEP / 2);
        assert_eq!(cached("a", 1).wait().unwrap(), local(1));
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
    fn a_lookup_that_does_not_end_blocks_no_later_one() {
        let (clock, asked, cached) = fixture();
        let waits = cached("a", 1);
        let slow = asked.take().remove(0);
        clock.advance(RESOLVE_TIMEOUT);
        let again = cached("a", 1);
        let fast = asked.take().remove(0);
        // The first lookup fails late: the second one decides.
        slow.fail(Failure::new("too late".to_owned())).unwrap();
        assert!(!waits.is_done() && !again.is_done());
        fast.succeed(local(2)).unwrap();
        assert_eq!(waits.wait().unwrap(), local(2));
        assert_eq!(again.wait().unwrap(), local(2));
        let many: Vec<_> = (0..=MOST_WAITING).map(|_| cached("b", 1)).collect();
        assert_eq!(asked.take().len(), 2, "the last one asks by itself");
        drop(many);
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
