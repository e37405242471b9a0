//! A new configuration every 200 ms under load, with 500 WebSockets: no request is lost, every tunnel
//! lives, the memory stays flat. Some of the clients connect for each request: listeners stay open, so
//! none of them is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::Client;
use super::program::Program;
use super::upstreams::{self, Kind};
use super::{Finding, Findings, Proof};

const CLIENTS: usize = 16;
/// One client of so many connects for each request.
const CONNECTS: usize = 4;
const TUNNELS: usize = 500;
const EVERY: Duration = Duration::from_millis(200);
/// How much the memory may grow between the first third of the run and its end.
const GROWTH: f64 = 1.2;
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: proof\r\n\r\n";
const GET_LAST: &[u8] = b"GET /a HTTP/1.1\r\nHost: proof\r\nConnection: close\r\n\r\n";
const UPGRADE: &[u8] = b"GET /live HTTP/1.1\r\nHost: proof\r\nConnection: Upgrade\r\n\
      Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// A text in a frame of a client, whose mask is zero.
const MESSAGE: [u8; 19] = *b"\x81\x8d\0\0\0\0are you there";

pub(super) fn run(proof: &Proof) -> Findings {
    let servers = [Kind::Healthy, Kind::Healthy, Kind::Echo].map(upstreams::start);
    let mut gateway = Program::start("reload", &sections(0, &servers), 8192)?;
    let address = gateway.address;
    let ends = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|number| {
        let ends = Arc::clone(&ends);
        let request = match number % CONNECTS {
            0 => GET_LAST,
            _ => GET,
        };
        std::thread::spawn(move || ask(address, request, &ends))
    });
    let clients: Vec<_> = clients.collect();
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        tunnels.push(open(address).map_err(|why| format!("a tunnel: {why}"))?);
    }
    let (began, mut reloads, mut early) = (Instant::now(), 0_u64, 0);
    let mut broken = 0;
    while began.elapsed() < proof.time() {
        reloads += 1;
        gateway.reload(&sections(reloads, &servers))?;
        if began.elapsed() < proof.time() / 3 {
            early = gateway.resident();
        }
        if reloads.is_multiple_of(10) {
            broken += speak(&mut tunnels);
        }
        let next = EVERY * u32::try_from(reloads).unwrap_or(u32::MAX);
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
    ends.store(true, Ordering::Relaxed);
    broken += speak(&mut tunnels);
    let late = gateway.resident();
    let (mut answered, mut lost) = (0, 0);
    for client in clients {
        let (one, other) = client.join().map_err(|_| "a client panicked")?;
        answered += one;
        lost += other;
    }
    let requests = format!("{reloads} reloads, {answered} requests answered, {lost} lost");
    let alive = format!("{} of {TUNNELS} tunnels alive", tunnels.len());
    let memory = format!("{early} KiB after a third, {late} KiB at the end");
    Ok(vec![
        Finding::new(lost == 0 && answered > 0 && reloads > 0, requests),
        Finding::new(broken == 0 && tunnels.len() == TUNNELS, alive),
        Finding::new(late as f64 <= early as f64 * GROWTH, memory),
    ])
}

/// Returns the configuration number `number`: the limit, the server and one of the routes change.
fn sections(number: u64, [one, two, echo]: &[SocketAddr; 3]) -> String {
    let (server, limit) = match number % 2 {
        0 => (one, 500),
        _ => (two, 501),
    };
    format!(
        "[upstream.back]\nservers = [\"{server}\"]\n[upstream.echo]\nservers = [\"{echo}\"]\n\
         [route.all]\nupstream = \"back\"\nlimit = {limit}\nbreaker = {{ }}\n\
         [route.live]\npath = \"/live\"\nupstream = \"echo\"\ntunnel = {{ max = 1000, idle = \"5m\" }}\n\
         [route.number{number}]\npath = \"/number{number}\"\nupstream = \"back\"\n"
    )
}

/// Sends requests until the end. Returns how many were answered and how many were lost; one that is
/// refused a connection is lost, too.
fn ask(to: SocketAddr, request: &[u8], ends: &AtomicBool) -> (u64, u64) {
    let (mut answered, mut lost) = (0, 0);
    let mut kept = None;
    while !ends.load(Ordering::Relaxed) {
        let client = match kept.take() {
            Some(client) => Ok(client),
            None => Client::connect(to),
        };
        let asked = client.and_then(|mut client| {
            client.send(request)?;
            let reply = client.reply()?;
            Ok((client, reply))
        });
        match asked {
            Ok((client, reply)) if reply.status == 200 => {
                answered += 1;
                kept = Some(client).filter(|_| !reply.closes);
            }
            _ => lost += 1,
        }
    }
    (answered, lost)
}

fn open(to: SocketAddr) -> std::io::Result<Client> {
    let mut client = Client::connect(to)?;
    client.send(UPGRADE)?;
    match client.reply()?.status {
        101 => Ok(client),
        status => Err(std::io::Error::other(format!("status {status}"))),
    }
}

/// Sends something through each tunnel, and reads it back. Removes those that are broken, and returns
/// their number.
fn speak(tunnels: &mut Vec<Client>) -> usize {
    let before = tunnels.len();
    tunnels.retain_mut(|tunnel| {
        let mut heard = [0; MESSAGE.len()];
        let spoke = tunnel
            .send(&MESSAGE)
            .and_then(|()| tunnel.read_exact(&mut heard));
        spoke.is_ok() && heard == MESSAGE
    });
    before - tunnels.len()
}
