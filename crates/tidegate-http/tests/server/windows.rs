//! How much of a streamed response is on its way: fast clients, and clients that stop reading.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tidegate_http::{HttpServer, ResponseStream};
use tidegate_promise::Outcome;
use tidegate_testkit::until;

use super::{Client, get};

const MIB: usize = 1 << 20;
const PIECE: usize = 64 * 1024;
static ZEROS: [u8; PIECE] = [b'0'; PIECE];

/// Sends pieces as long as the client takes them, and goes on when it takes more. `waiting` counts the
/// streams that wait for their clients.
fn pour(mut stream: ResponseStream, pieces: usize, waiting: &Arc<AtomicUsize>) {
    for left in (1..=pieces).rev() {
        if stream.is_writable() {
            stream.write(Bytes::from_static(&ZEROS));
            continue;
        }
        waiting.fetch_add(1, Ordering::SeqCst);
        let waits = Arc::clone(waiting);
        stream.writable().on_complete(move |room| {
            waits.fetch_sub(1, Ordering::SeqCst);
            if let Outcome::Success(()) = room {
                pour(stream, left, &waits);
            }
        });
        return;
    }
    stream.finish();
}

/// Starts a server of streams of `length` bytes, whose connections may hold `memory` bytes together.
/// Returns how many streams wait for their clients, too.
fn start(length: usize, memory: usize) -> (HttpServer, Arc<AtomicUsize>) {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let waiting: Arc<AtomicUsize> = Arc::default();
    let counts = Arc::clone(&waiting);
    let server = HttpServer::builder(&group)
        .configure(move |net| net.max_memory(memory))
        .serve("127.0.0.1:0", move |_, response| {
            pour(
                response.stream_with_length(length as u64),
                length / PIECE,
                &counts,
            );
        });
    (server.wait().unwrap(), waiting)
}

/// Reads the head of a response and `length` bytes of its body.
fn read(client: &mut Client, length: usize) {
    let end = client.read_until(|bytes| {
        let found = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        found.map(|at| at + 4)
    });
    let rest = length.saturating_sub(client.received.len() - end);
    let mut body = vec![0; rest];
    client.stream.read_exact(&mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == b'0'));
    client.received.clear();
}

#[test]
fn clients_that_stop_reading_hold_two_windows_each() {
    const CLIENTS: usize = 8;
    let (server, waiting) = start(256 * MIB, 1 << 30);
    let held = || server.server().metrics().held_bytes;
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::of(&server);
            client.send(get("/"));
            // A fast client, whose window grows.
            read(&mut client, 16 * MIB);
            client
        })
        .collect();
    until("all of them wait for their clients", || {
        waiting.load(Ordering::SeqCst) == CLIENTS && held() > 0
    });
    // Two windows of 512 KiB, and a part of another one up to the high-water mark.
    let most = CLIENTS * (MIB + 4 * PIECE);
    assert!(held() <= most, "{}", held());
    // A client that goes on slowly gets the rest, and no more is held for it.
    for client in &mut clients {
        for _ in 0..16 {
            let mut some = vec![0; MIB];
            client.stream.read_exact(&mut some).unwrap();
            assert!(held() <= most, "{}", held());
        }
    }
    drop(clients);
    until("nothing is held", || held() == 0);
    assert_eq!(server.server().metrics().closed_for_memory, 0);
}

#[test]
fn fast_clients_stay_within_the_memory_of_the_server() {
    let length = 16 * MIB;
    let (server, _) = start(length, 2 * MIB);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::of(&server);
                for _ in 0..2 {
                    client.send(get("/"));
                    read(&mut client, length);
                }
            });
        }
    });
    let metrics = server.server().metrics();
    assert_eq!(metrics.closed_for_memory, 0);
    until("nothing is held", || {
        server.server().metrics().held_bytes == 0
    });
}
