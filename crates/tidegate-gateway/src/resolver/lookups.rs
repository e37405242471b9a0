//! Lookups on threads that may block: those that [`Turns`] lets begin.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate::Clock;
use tidegate::pool::WorkerPool;
use tidegate::promise::{Completion, Failure, Promise, promise};

use super::turns::{MOST_RUNNING, Turns};

/// The addresses of a host, with any port.
type Found = Result<Vec<SocketAddr>, Failure>;

/// Looks up a host. May block.
type Ask = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Lookups on threads.
pub(super) struct Lookups {
    turns: Mutex<Turns<Waiter>>,
    clock: Clock,
    /// Starts with the first lookup.
    threads: OnceLock<WorkerPool>,
    ask: Box<Ask>,
}

/// One that waits for the addresses of a host, with this port.
struct Waiter {
    promise: Promise<Vec<SocketAddr>>,
    port: u16,
}

impl Waiter {
    fn tell(self, found: &Found) {
        let with_port = |mut address: SocketAddr| {
            address.set_port(self.port);
            address
        };
        let own = found.clone();
        let own = own.map(|found| found.into_iter().map(with_port).collect());
        // Nobody waits any more.
        drop(self.promise.complete(own));
    }
}

/// Ends a lookup on drop, also if it panics or gets no thread.
struct Ending {
    lookups: Arc<Lookups>,
    name: Arc<str>,
    found: Found,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let now = self.lookups.clock.nanos();
        let waiters = self.lookups.turns().end(&self.name, now);
        for waiter in waiters {
            waiter.tell(&self.found);
        }
    }
}

impl Lookups {
    pub(super) fn new(
        clock: Clock,
        ask: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            turns: Mutex::new(Turns::new()),
            clock,
            threads: OnceLock::new(),
            ask: Box::new(ask),
        })
    }

    /// Looks up a host.
    pub(super) fn ask(self: &Arc<Self>, host: &str, port: u16) -> Completion<Vec<SocketAddr>> {
        let (promise, resolved) = promise();
        let waiter = Waiter { promise, port };
        let refused = self.turns().add(host, waiter);
        match refused {
            Ok(()) => self.begin(),
            Err(waiter) => waiter.tell(&Err(Failure::new("too many names are looked up"))),
        }
        resolved
    }

    /// Begins the lookups whose turn it is.
    fn begin(self: &Arc<Self>) {
        loop {
            let now = self.clock.nanos();
            let mut turns = self.turns();
            let next = turns.next(now);
            let again = turns.plan(now);
            drop(turns);
            if let Some(after) = again {
                self.try_again(after);
            }
            match next {
                Some(name) => self.run(name),
                None => return,
            }
        }
    }

    /// Runs a lookup on a thread.
    fn run(self: &Arc<Self>, name: Arc<str>) {
        let mut ending = Ending {
            lookups: Arc::clone(self),
            name,
            found: Err(Failure::new("no thread looks it up")),
        };
        let look_up = move || {
            let lookups = Arc::clone(&ending.lookups);
            let found = (lookups.ask)(&ending.name);
            ending.found = found.map_err(Failure::new);
            drop(ending);
            lookups.begin();
        };
        drop(self.threads().execute(look_up));
    }

    /// Begins more lookups after this time.
    fn try_again(self: &Arc<Self>, after: Duration) {
        let weak = Arc::downgrade(self);
        let begin = move || {
            if let Some(own) = weak.upgrade() {
                own.turns().try_again();
                own.begin();
            }
        };
        if self.threads().schedule(after, begin).is_err() {
            // They begin when a lookup ends.
            self.turns().try_again();
        }
    }

    fn threads(&self) -> &WorkerPool {
        self.threads.get_or_init(|| pool(&self.clock))
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Waiter>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the operating system.
pub(super) fn ask_system(host: &str) -> io::Result<Vec<SocketAddr>> {
    (host, 0).to_socket_addrs().map(Vec::from_iter)
}

/// Returns threads for all lookups that may run, and one that begins more.
fn pool(clock: &Clock) -> WorkerPool {
    let threads = MOST_RUNNING + 1;
    let pool = WorkerPool::builder("resolve").core(0).max(threads);
    let pool = pool.queue(threads).reserved(0).clock(clock.clone());
    let pool = pool.keep_alive(Duration::from_secs(10)).build();
    pool.expect("the limits do not contradict each other")
}

#[cfg(test)]
mod tests {
    //! Lookups of which some hang until the test ends.

    use std::net::SocketAddr;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tidegate::promise::Completion;
    use tidegate::{Clock, ManualClock};

    use super::super::turns::MOST_RUNNING;
    use super::Lookups;

    /// Lookups in which names with `hangs` hang until the fixture is dropped, and one with `panics`
    /// panics.
    struct Fixture {
        lookups: Arc<Lookups>,
        clock: ManualClock,
        asked: Arc<Mutex<Vec<String>>>,
        _free: Sender<()>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = ManualClock::new();
            let (free, hangs) = channel::<()>();
            let hangs = Arc::new(Mutex::new(hangs));
            let asked = Arc::new(Mutex::new(Vec::new()));
            let own = Arc::clone(&asked);
            let ask = move |host: &str| {
                own.lock().unwrap().push(host.to_owned());
                assert!(!host.contains("panics"));
                if host.contains("hangs") {
                    let _ = hangs.lock().unwrap_or_else(|dead| dead.into_inner()).recv();
                }
                Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
            };
            Self {
                lookups: Lookups::new(Clock::from(&clock), ask),
                clock,
                asked,
                _free: free,
            }
        }

        fn hang(&self, count: usize) -> Vec<Completion<Vec<SocketAddr>>> {
            let names = (0..count).map(|number| format!("hangs{number}"));
            names.map(|name| self.lookups.ask(&name, 80)).collect()
        }

        fn asked(&self) -> usize {
            self.asked.lock().unwrap().len()
        }
    }

    fn address(port: u16) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], port))]
    }

    #[test]
    fn names_that_hang_do_not_delay_a_new_one() {
        let fixture = Fixture::new();
        let hung = fixture.hang(30);
        let found = fixture.lookups.ask("good", 81).wait().unwrap();
        assert_eq!(found, address(81));
        assert!(hung.iter().all(|one| !one.is_done()));
    }

    #[test]
    fn a_name_that_was_found_is_found_again_whatever_hangs() {
        let fixture = Fixture::new();
        fixture.lookups.ask("good", 80).wait().unwrap();
        let hung = fixture.hang(2 * MOST_RUNNING);
        let found = fixture.lookups.ask("good", 81).wait().unwrap();
        assert_eq!(found, address(81));
        assert!(hung.iter().all(|one| !one.is_done()));
    }

    #[test]
    fn a_new_name_waits_a_second_at_most_for_each_batch_that_hangs() {
        let fixture = Fixture::new();
        let _hung = fixture.hang(60);
        let good = fixture.lookups.ask("good", 80);
        tidegate_testkit::until("32 lookups run", || fixture.asked() == 32);
        assert!(!good.is_done());
        tidegate_testkit::until("a lookup is slow", || {
            fixture.clock.jump(Duration::from_secs(1));
            good.is_done()
        });
    }

    #[test]
    fn a_name_is_looked_up_once_for_all_who_ask() {
        let fixture = Fixture::new();
        let _one = fixture.lookups.ask("hangs", 80);
        let _two = fixture.lookups.ask("hangs", 81);
        fixture.lookups.ask("good", 80).wait().unwrap();
        let asked = fixture.asked.lock().unwrap();
        let own = asked.iter().filter(|name| *name == "hangs");
        assert!(own.count() <= 1);
    }

    #[test]
    fn a_lookup_that_panics_is_a_failure_and_leaves_its_place() {
        let fixture = Fixture::new();
        for _ in 0..2 * MOST_RUNNING {
            assert!(fixture.lookups.ask("panics", 80).wait().is_err());
        }
    }
}
