//! Hostile clients against a service that misbehaves, in random combinations: pipelining, bodies,
//! malformed requests, Expect, upgrades, half-closes, resets, clients that read late, TLS and ends
//! without its `close_notify`, drains, panics, responses that other threads, tasks of the loops and calls
//! for other requests end, also after the connection, limits of time, and a limit of memory.
//!
//! A seed is *exact* if no limit ends a connection: then each polite client gets the response of
//! each request. In the others, a client gets the responses of its first requests, and nothing wrong.
//! In both, each request is answered or failed once, and nothing is left.
//!
//! | file | contents |
//! |---|---|
//! | this one | the server, its clock, and what is left at the end |
//! | `service` | does what a request asks for, and ends responses later |
//! | `client` | sends requests, and checks the responses |
//! | `malformed` | requests that are refused |
//! | `link` | the connection of a client, which may be encrypted |

mod client;
mod link;
mod malformed;
mod service;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_http::{HttpServer, Limits};
use tidegate_net::ChannelPlacement;
use tidegate_net::{NetGroup, NetGroupBuilder};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Rng, model, short_or_long, until};

use self::client::Clients;
use self::link::Authority;
use self::service::Book;
use super::{Memory, turn};

/// Threads with clients.
const THREADS: usize = 3;
/// Clients of each thread.
const CLIENTS: usize = 12;
/// How long the driver waits for a client before it lets time pass, where time passes.
const PAUSE: Duration = Duration::from_millis(1);
/// How much time passes then.
const STEP: Duration = Duration::from_millis(100);

#[test]
fn hostile_clients_and_services_leave_nothing_behind() {
    let _turn = turn();
    let seeds = short_or_long(16, 4000);
    let mut memory = None;
    model(0..seeds, |rng| {
        storm(rng);
        // By now each kind of loop has run, and what is made once was made.
        if rng.seed() == seeds / 4 {
            memory = Some(Memory::start());
        }
    });
    if let Some(memory) = memory {
        until("the memory is released", || memory.held() < 256 * 1024);
    }
}

/// What differs from seed to seed.
struct Weather {
    /// No limit ends a connection.
    exact: bool,
    /// No client leaves before it has its responses.
    polite: bool,
    half_close: bool,
    outstanding: usize,
    memory: Option<usize>,
    /// For connections that are encrypted.
    authority: Option<Arc<Authority>>,
    /// How many clients end before the drain begins.
    before_drain: usize,
}

impl Weather {
    fn new(rng: &mut Rng) -> Self {
        let exact = rng.chance(0.5);
        let all = THREADS * CLIENTS;
        Self {
            exact,
            polite: rng.chance(0.3),
            half_close: exact || rng.chance(0.7),
            outstanding: 1 + rng.index(16),
            memory: (!exact && rng.chance(0.5)).then_some(300_000),
            authority: authority(rng).map(Arc::new),
            before_drain: if exact { all } else { rng.index(all + 1) },
        }
    }
}

/// Returns the certificates that the clients trust, in a third of the storms.
fn authority(rng: &mut Rng) -> Option<Authority> {
    let secure = rng.chance(0.33);
    #[cfg(feature = "tls")]
    let authority = secure.then(Authority::new);
    #[cfg(not(feature = "tls"))]
    let authority = None.filter(|_| secure);
    authority
}

fn storm(rng: &mut Rng) {
    let clock = ManualClock::new();
    let builder = NetGroup::builder("web")
        .loops(1 + rng.index(2))
        .clock(&clock)
        .on_unhandled(|_, _| ());
    if rng.chance(0.5) {
        let group = builder.build().unwrap();
        return run(&group, &clock, rng);
    }
    roam(builder, &clock, rng);
}

fn roam(builder: NetGroupBuilder, clock: &ManualClock, rng: &mut Rng) {
    let pool = WorkerPool::builder("workers").core(4).max(8);
    let pool = pool.build().unwrap();
    run(&builder.build_roaming(&pool).unwrap(), clock, rng);
}

fn run<P: ChannelPlacement>(group: &NetGroup<P>, clock: &ManualClock, rng: &mut Rng) {
    let weather = Weather::new(rng);
    let book = Book::default();
    let (later, finishers) = service::finishers(group, rng);
    let limits = Limits::default()
        .response_time(Duration::from_secs(5))
        .send_time(Duration::from_secs(8))
        .max_outstanding(weather.outstanding)
        .half_close(weather.half_close);
    let builder = HttpServer::builder(group)
        .limits(limits)
        .configure(|net| match weather.memory {
            Some(bytes) => net.max_memory(bytes),
            None => net,
        });
    #[cfg(feature = "tls")]
    let builder = match &weather.authority {
        Some(authority) => builder.tls(authority.server("a.test")),
        None => builder,
    };
    let server = builder
        .serve("127.0.0.1:0", service::service(&book, later))
        .wait()
        .unwrap();
    let (ended, ends) = mpsc::channel();
    let threads: Vec<JoinHandle<()>> = (0..THREADS)
        .map(|at| {
            let clients = Clients {
                address: server.local_addr(),
                authority: weather.authority.clone(),
                exact: weather.exact,
                polite: weather.polite,
                half_close: weather.half_close,
                first_tag: at * 1_000_000,
            };
            let (mut rng, ended) = (rng.fork(), ended.clone());
            thread::spawn(move || clients.run(CLIENTS, &mut rng, &ended))
        })
        .collect();
    drop(ended);
    // Counts the clients that have ended, and lets time pass meanwhile.
    let (mut count, mut drained) = (0, None);
    loop {
        if count >= weather.before_drain && drained.is_none() && !weather.exact {
            drained = Some(server.drain(Duration::from_secs(20)));
        }
        match ends.recv_timeout(PAUSE) {
            Ok(()) => count += 1,
            Err(RecvTimeoutError::Timeout) if !weather.exact => clock.advance(STEP),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let drained = drained.unwrap_or_else(|| server.drain(Duration::from_secs(20)));
    until("the drain ends", || {
        if !weather.exact {
            clock.advance(STEP);
        }
        drained.is_done()
    });
    settle(&server, &book, &weather);
    drop(server);
    for finisher in finishers {
        finisher.join().unwrap();
    }
}

/// Checks that nothing is left, and that the counters agree.
fn settle(server: &HttpServer, book: &Book, weather: &Weather) {
    until("no connection is left", || {
        server.metrics().connections == 0 && server.server().metrics().connections == 0
    });
    until("each body has ended", || {
        book.bodies_ended.count() == book.bodies.count()
    });
    until(
        "each deferred response knows that its connection ended",
        || book.closed.count() == book.deferred.count(),
    );
    book.end_those_that_never_came();
    until("nothing is held", || {
        server.server().metrics().held_bytes == 0
    });
    let metrics = server.metrics();
    assert_eq!(book.poison.count(), 0, "nothing behind a malformed request");
    assert_eq!(metrics.requests, book.calls.count(), "{metrics}");
    let refused: u64 = metrics.refusals.iter().map(|(_, number)| number).sum();
    let settled = metrics.responses.iter().sum::<u64>() + metrics.unanswered;
    assert!(settled <= metrics.requests + refused, "{metrics}");
    if weather.exact && weather.polite {
        // A refusal is of a request that was counted, if it is for the body. It is not sent if an
        // earlier response ends the connection.
        assert!(settled >= metrics.requests, "{metrics}");
    }
}
