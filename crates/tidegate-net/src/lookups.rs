//! Lookups of names on threads that may block.
//!
//! The operating system gives up a lookup only after many seconds if a DNS server is dead, and nothing
//! ends it earlier. So the names whose last lookup was slow share at most half of the threads, and
//! leave the others to names that are found at once.
//!
//! # Invariants
//!
//! * A name has one lookup at most, which waits or runs. Its result is for all callers that ask
//!   meanwhile.
//! * No promise is completed under the lock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::{PlainTask, lock};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Completion, Failure, Promise, promise};

use crate::errors::NetError;

/// The most lookups that run at a time.
const MOST_RUNNING: usize = 64;
/// The most of them of names whose last lookup was slow.
const MOST_SLOW: usize = MOST_RUNNING / 2;
/// The most callers that wait for a result; further ones are refused.
const MOST_WAITING: usize = 4096;
/// The most slow names that are remembered.
const MOST_REMEMBERED: usize = 4096;
/// A lookup that takes longer is slow, in nanoseconds.
const SLOW: u64 = 1_000_000_000;

/// Looks up a host. May block.
type Ask = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Lookups on threads.
pub(crate) struct Lookups {
    names: Mutex<Names>,
    clock: Clock,
    /// Starts with the first lookup.
    threads: OnceLock<WorkerPool>,
    ask: Box<Ask>,
}

/// The promise of a caller, and its port.
type Waiter = (Promise<Vec<SocketAddr>>, u16);

#[derive(Default)]
struct Names {
    /// The names that wait for a thread: prompt ones, and those whose last lookup was slow.
    queues: [VecDeque<Arc<str>>; 2],
    /// How many of each kind run.
    running: [usize; 2],
    /// The callers that wait for the names that wait or run, with their ports.
    waiters: HashMap<Arc<str>, Vec<Waiter>>,
    waiting: usize,
    /// The names whose last lookup was slow.
    slow: HashSet<Arc<str>>,
}

impl Names {
    /// Adds a caller that waits for a name. Returns its promise if too many wait.
    fn add(
        &mut self,
        name: &str,
        promise: Promise<Vec<SocketAddr>>,
        port: u16,
    ) -> Result<(), Promise<Vec<SocketAddr>>> {
        if self.waiting >= MOST_WAITING {
            return Err(promise);
        }
        self.waiting += 1;
        if let Some(others) = self.waiters.get_mut(name) {
            others.push((promise, port));
            return Ok(());
        }
        let name: Arc<str> = Arc::from(name);
        self.queues[usize::from(self.slow.contains(&name))].push_back(Arc::clone(&name));
        self.waiters.insert(name, vec![(promise, port)]);
        Ok(())
    }

    /// Returns a name whose lookup begins now, and whether it counts as slow.
    fn next(&mut self) -> Option<(Arc<str>, bool)> {
        let [prompt, slow] = self.running;
        if prompt + slow >= MOST_RUNNING {
            return None;
        }
        let kinds = if slow < MOST_SLOW { 2 } else { 1 };
        for kind in 0..kinds {
            if let Some(name) = self.queues[kind].pop_front() {
                self.running[kind] += 1;
                return Some((name, kind == 1));
            }
        }
        None
    }
}

/// A lookup that runs. Ends on drop, also if it panics or gets no thread.
struct Lookup {
    lookups: Arc<Lookups>,
    name: Arc<str>,
    /// It has the place of a slow name.
    slow: bool,
    since: u64,
    found: Result<Vec<SocketAddr>, Failure>,
}

impl Lookup {
    fn run(mut self) {
        self.found = (self.lookups.ask)(&self.name).map_err(Failure::new);
        let lookups = Arc::clone(&self.lookups);
        drop(self);
        lookups.begin();
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let taken = self.lookups.clock.nanos().saturating_sub(self.since);
        let mut names = self.lookups.names();
        names.running[usize::from(self.slow)] -= 1;
        if taken < SLOW {
            names.slow.remove(&self.name);
        } else {
            if names.slow.len() >= MOST_REMEMBERED {
                names.slow.clear();
            }
            names.slow.insert(Arc::clone(&self.name));
        }
        let waiters = names.waiters.remove(&self.name).unwrap_or_default();
        names.waiting -= waiters.len();
        drop(names);
        for (promise, port) in waiters {
            let name = self.name.to_string();
            let outcome = match &self.found {
                Ok(found) if found.is_empty() => Err(NetError::NoAddress(name).into()),
                Ok(found) => Ok(found.iter().map(|one| (one.ip(), port).into()).collect()),
                Err(why) => Err(failed(name, why.clone())),
            };
            // Its reader may have left.
            let _ = promise.complete(outcome);
        }
    }
}

fn failed(name: String, why: Failure) -> Failure {
    Failure::new(NetError::ResolveFailed { name, why })
}

impl Lookups {
    pub(crate) fn new(
        clock: Clock,
        ask: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            names: Mutex::default(),
            clock,
            threads: OnceLock::new(),
            ask: Box::new(ask),
        })
    }

    /// Looks up a host.
    pub(crate) fn ask(self: &Arc<Self>, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
        let (promise, resolved) = promise();
        let added = self.names().add(host, promise, port);
        match added {
            Ok(()) => self.begin(),
            Err(promise) => {
                let why = Failure::new("too many names are looked up");
                let _ = promise.fail(failed(host.to_owned(), why));
            }
        }
        resolved
    }

    /// Begins the lookups for which there are threads.
    fn begin(self: &Arc<Self>) {
        loop {
            let next = self.names().next();
            let Some((name, slow)) = next else { return };
            let lookup = Lookup {
                lookups: Arc::clone(self),
                name,
                slow,
                since: self.clock.nanos(),
                found: Err(Failure::new("no thread looks it up")),
            };
            let task = PlainTask::named("resolve a name", move || lookup.run());
            // A refused task drops its lookup, which fails then.
            drop(self.threads.get_or_init(pool).execute_task(task));
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }
}

/// Returns the threads of all lookups.
fn pool() -> WorkerPool {
    let pool = WorkerPool::builder("resolve").core(0).max(MOST_RUNNING);
    let pool = pool.queue(MOST_RUNNING).reserved(0);
    let pool = pool.keep_alive(Duration::from_secs(10)).build();
    pool.expect("the limits do not contradict each other")
}

#[cfg(test)]
mod tests {
    //! Lookups of which some hang until the test ends.

    use std::sync::mpsc::{Sender, channel};

    use tidegate_core::ManualClock;
    use tidegate_testkit::{Log, until};

    use super::*;

    /// Lookups in which a name with `hangs` hangs until the test lets it go, and one with `panics`
    /// panics.
    struct Fixture {
        lookups: Arc<Lookups>,
        clock: ManualClock,
        asked: Log<String>,
        go: Sender<()>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = ManualClock::new();
            let (go, hangs) = channel::<()>();
            let hangs = Mutex::new(hangs);
            let (asked, own) = Log::pair();
            let ask = move |host: &str| {
                own.push(host.to_owned());
                assert!(!host.contains("panics"));
                if host.contains("hangs") {
                    let _ = lock(&hangs).recv();
                }
                Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
            };
            Self {
                lookups: Lookups::new(Clock::from(&clock), ask),
                clock,
                asked,
                go,
            }
        }

        fn hang(&self, names: impl Iterator<Item = usize>) -> Vec<Completion<Vec<SocketAddr>>> {
            names
                .map(|name| self.lookups.ask(&format!("hangs{name}"), 80))
                .collect()
        }

        /// Makes names slow: their lookups end after a second.
        fn slow(&self, count: usize) {
            let hung = self.hang(0..count);
            until("they are looked up", || self.asked.len() == count);
            self.clock.jump(Duration::from_secs(1));
            hung.iter().for_each(|_| self.go.send(()).unwrap());
            hung.into_iter().for_each(|one| drop(one.wait().unwrap()));
            let _ = self.asked.take();
        }
    }

    #[test]
    fn names_that_were_slow_leave_half_of_the_threads_to_others() {
        let fixture = Fixture::new();
        fixture.slow(MOST_RUNNING);
        let hung = fixture.hang(0..MOST_RUNNING);
        until("half of them run", || fixture.asked.len() == MOST_SLOW);
        let new = fixture.hang(100..100 + MOST_SLOW - 1);
        for port in [1, 2] {
            let found = fixture.lookups.ask("good", port).wait().unwrap();
            assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], port))]);
        }
        assert!(hung.iter().chain(&new).all(|one| !one.is_done()));
        until("the new names are looked up", || {
            fixture.asked.len() == MOST_RUNNING - 1 + 2
        });
    }

    #[test]
    fn a_name_that_is_found_at_once_is_slow_no_more() {
        let fixture = Fixture::new();
        fixture.slow(1);
        assert_eq!(fixture.lookups.names().slow.len(), 1);
        let again = fixture.hang(0..1);
        fixture.go.send(()).unwrap();
        again.into_iter().for_each(|one| drop(one.wait().unwrap()));
        assert!(fixture.lookups.names().slow.is_empty());
    }

    #[test]
    fn a_name_has_one_lookup_for_all_callers_and_their_number_is_bounded() {
        let fixture = Fixture::new();
        let all = fixture.hang(std::iter::repeat_n(7, MOST_WAITING));
        let late = fixture.lookups.ask("good", 80).wait().unwrap_err();
        assert!(late.to_string().contains("too many names"), "{late}");
        fixture.go.send(()).unwrap();
        all.into_iter().for_each(|one| drop(one.wait().unwrap()));
        assert_eq!(fixture.asked.len(), 1);
        fixture.lookups.ask("good", 80).wait().unwrap();
    }

    #[test]
    fn a_lookup_that_panics_is_a_failure_and_leaves_its_place() {
        let fixture = Fixture::new();
        for _ in 0..2 * MOST_RUNNING {
            assert!(fixture.lookups.ask("panics", 80).wait().is_err());
        }
    }
}
