//! The ends of a server against each other, under load: whatever comes first, each connection and
//! each listener ends once, and every completion completes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::{Rng, model, rounds, until};

use crate::Echo;

const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: usize = 6;

/// Connects, exchanges a few bytes and leaves, again and again.
fn load(address: SocketAddr, server: &Server, over: &AtomicBool) {
    let mut kept = Vec::new();
    while !over.load(Ordering::Relaxed) {
        assert!(server.connections() <= LIMIT);
        let Ok(mut client) = TcpStream::connect(address) else {
            return;
        };
        // The server may refuse the connection, or may not accept it at all.
        client.set_nonblocking(true).unwrap();
        let _ = client.write(b"hello");
        let _ = client.read(&mut [0; 5]);
        kept.push(client);
        if kept.len() > 4 {
            kept.remove(0);
        }
    }
}

/// Changes the state of the server at random, and ends it in several ways at once.
fn end(server: &Server, rng: &mut Rng) {
    let mut waiting = Vec::new();
    let mut handed_out = Vec::new();
    for _ in 0..20 {
        match rng.below(7) {
            0 => server.pause_accepting(),
            1 => server.resume_accepting(),
            2 => server.announce_drain(),
            3 => waiting.push(server.drain_after(HOUR, HOUR)),
            4 if rng.chance(0.2) => drop(server.stop_accepting()),
            5 if rng.chance(0.2) => handed_out.push(server.release_listeners()),
            6 if rng.chance(0.2) => waiting.push(server.drain(Duration::ZERO)),
            _ => drop((server.dump(), server.metrics().to_string())),
        }
    }
    let last = server.drain(Duration::ZERO);
    server.closed().wait().unwrap();
    last.wait().unwrap();
    for drained in waiting {
        drained.wait().unwrap();
    }
    let listeners = handed_out.into_iter().map(|one| one.wait().unwrap().len());
    let listeners: usize = listeners.sum();
    assert!(listeners == 0 || listeners == 2, "all of them, or none");
}

#[test]
fn every_order_of_ends_leaves_nothing_behind() {
    model(0..rounds(20) as u64, |rng| {
        let clock = ManualClock::new();
        let group = NetGroup::builder("io").loops(2).clock(&clock);
        let group = group.build().unwrap();
        let server = Server::builder(&group)
            .pipeline(|p| p.add("echo", Echo))
            .listeners_per_port(2)
            .max_connections(LIMIT)
            .max_connections_per_peer(LIMIT)
            .max_memory(1 << 20)
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let (address, over) = (server.local_addr(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| load(address, &server, &over));
            }
            end(&server, rng);
            over.store(true, Ordering::Relaxed);
        });
        until("every connection is counted out", || {
            let metrics = server.metrics();
            metrics.connections == 0 && metrics.held_bytes == 0
        });
        assert!(!server.metrics().accepting);
    });
}
