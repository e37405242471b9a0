//! SIGTERM under load: no request that was accepted is lost, by the count of the clients.
//!
//! A client sends its next request only after the last response, and connects again after one that
//! ends its connection. It leaves when nobody listens any more. A new connection that ends without a
//! byte was never accepted: the kernel made it for a listener that was about to close.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::Client;
use super::program::Program;
use super::upstreams::{self, Kind};
use super::{Finding, Findings, Proof};

const CLIENTS: usize = 32;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: proof\r\n\r\n";

/// What a client has counted.
#[derive(Default)]
struct Count {
    answered: u64,
    /// Sent on a connection that was accepted, and not answered.
    lost: u64,
    /// Sent on a connection that was not accepted.
    unaccepted: u64,
    other: u64,
}

pub(super) fn run(proof: &Proof) -> Findings {
    let back = upstreams::start(Kind::Healthy);
    let sections = format!(
        "[upstream.back]\nservers = [\"{back}\"]\n[route.all]\nupstream = \"back\"\nlimit = 1000\n\
         [drain]\nannounce = \"500ms\"\ndeadline = \"10s\"\n"
    );
    let mut gateway = Program::start("drain", &sections, 4096)?;
    let address = gateway.address;
    let clients = (0..CLIENTS).map(|_| std::thread::spawn(move || ask(address)));
    let clients: Vec<_> = clients.collect();
    std::thread::sleep(proof.time());
    gateway.signal(Signal::TERM)?;
    let began = Instant::now();
    let status = gateway.wait(Duration::from_secs(15))?;
    let took = began.elapsed();
    let mut all = Count::default();
    for client in clients {
        let count = client.join().map_err(|_| "a client panicked")?;
        all.answered += count.answered;
        all.lost += count.lost;
        all.unaccepted += count.unaccepted;
        all.other += count.other;
    }
    let line = format!(
        "{} requests answered, {} lost, {} with another status, {} not accepted; ended after {} ms \
         with {status}",
        all.answered,
        all.lost,
        all.other,
        all.unaccepted,
        took.as_millis()
    );
    let holds = all.lost + all.other == 0 && all.answered > 0 && status.success();
    Ok(vec![Finding::new(holds, line)])
}

/// Sends requests until nobody listens.
fn ask(to: SocketAddr) -> Count {
    let mut count = Count::default();
    // Refused: it has stopped accepting.
    while let Ok(mut client) = Client::connect(to) {
        let mut is_new = true;
        loop {
            match client.send(GET).and_then(|()| client.reply()) {
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
                Err(_) if is_new && !client.has_received() => {
                    count.unaccepted += 1;
                    break;
                }
                Err(_) => {
                    count.lost += 1;
                    break;
                }
            }
        }
    }
    count
}
