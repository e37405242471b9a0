//! SIGTERM under load: no request that was accepted is lost, by the count of the clients and by the
//! access log.
//!
//! A client sends its next request only after the last response, and connects again after one that
//! ends its connection. It leaves when nobody listens any more.
//!
//! A connection that the kernel has made for a listener and that is never accepted is reset when the
//! listener closes, which is not before the announcement is over. So a new connection that ends in
//! another way, or earlier, was accepted, and its request is lost. A gateway that closes what it has just
//! accepted could still look like that: its close resets a connection with bytes that it has not read.
//! Therefore some of the clients wait for a moment before they send anything, because without such bytes
//! a close is no reset. And a request that was read has a line in the access log.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::Client;
use super::program::Program;
use super::upstreams::{self, Kind};
use super::{Finding, Findings, Proof};

const CLIENTS: usize = 32;
/// One client of so many waits before it sends something on a new connection.
const WAITS: usize = 4;
/// How long. A gateway that drains gives the first request of a connection more time.
const MOMENT: Duration = Duration::from_millis(2);
/// How long the gateway announces its end.
const ANNOUNCE: Duration = Duration::from_millis(500);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: proof\r\n\r\n";

/// What a client has counted.
#[derive(Default)]
struct Count {
    answered: u64,
    /// Sent on a connection that was accepted, and not answered.
    lost: u64,
    /// The moments at which connections were reset that perhaps were not accepted.
    reset: Vec<Instant>,
    other: u64,
}

pub(super) fn run(proof: &Proof) -> Findings {
    let back = upstreams::start(Kind::Healthy);
    let sections = format!(
        "[upstream.back]\nservers = [\"{back}\"]\n[route.all]\nupstream = \"back\"\nlimit = 1000\n\
         [drain]\nannounce = \"{}ms\"\ndeadline = \"10s\"\n",
        ANNOUNCE.as_millis()
    );
    let mut gateway = Program::start("drain", &sections, 4096)?;
    let address = gateway.address;
    let clients = (0..CLIENTS).map(|number| {
        let waits = number.is_multiple_of(WAITS);
        std::thread::spawn(move || ask(address, waits))
    });
    let clients: Vec<_> = clients.collect();
    std::thread::sleep(proof.time());
    let began = Instant::now();
    gateway.signal(Signal::TERM)?;
    let status = gateway.wait(Duration::from_secs(15))?;
    let took = began.elapsed();
    let (mut all, mut unaccepted) = (Count::default(), 0);
    for client in clients {
        let count = client.join().map_err(|_| "a client panicked")?;
        let early = count.reset.iter().filter(|at| **at < began + ANNOUNCE);
        let early = early.count();
        all.answered += count.answered;
        all.lost += count.lost + early as u64;
        all.other += count.other;
        unaccepted += count.reset.len() - early;
    }
    let line = format!(
        "{} requests answered, {} lost, {} with another status, {unaccepted} not accepted; ended after \
         {} ms with {status}",
        all.answered,
        all.lost,
        all.other,
        took.as_millis()
    );
    let holds = all.lost + all.other == 0 && all.answered > 0 && status.success();
    let logged = gateway.logged()?;
    let log = match logged.first() {
        None => "no request in the access log that was no success".to_owned(),
        Some(first) => format!(
            "{} requests in the access log that were no success: {first}",
            logged.len()
        ),
    };
    let is_clean = logged.is_empty();
    Ok(vec![Finding::new(holds, line), Finding::new(is_clean, log)])
}

/// Sends requests until nobody listens.
fn ask(to: SocketAddr, waits: bool) -> Count {
    let mut count = Count::default();
    // Refused: it has stopped accepting.
    while let Ok(mut client) = Client::connect(to) {
        let mut is_new = true;
        let mut opened = match waits {
            true => client.stays_open(MOMENT),
            false => Ok(()),
        };
        loop {
            let sent = std::mem::replace(&mut opened, Ok(())).and_then(|()| client.send(GET));
            match sent.and_then(|()| client.reply()) {
                Ok(reply) => {
                    is_new = false;
                    match reply.status {
                        200 => count.answered += 1,
                        _ => count.other += 1,
                    }
                    if reply.closes {
                        break;
                    }
                }
                Err(why) => {
                    match is_new && !client.has_received() && is_reset(&why) {
                        true => count.reset.push(Instant::now()),
                        false => count.lost += 1,
                    }
                    break;
                }
            }
        }
    }
    count
}

/// Returns `true` for what a connection shows that the kernel has reset.
fn is_reset(why: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(why.kind(), ConnectionReset | BrokenPipe)
}
