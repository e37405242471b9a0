//! A subscriber of the process that panics in each of its methods, one that blocks, and one that uses
//! the library. The test is alone in its process.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_loop::{EventLoop, block_on};
use tidegate_net::{Client, NetGroup, Server};
use tidegate_testkit::{Recorder, Stop, until};
use tracing::subscriber::set_global_default;

#[path = "it/echo.rs"]
mod echo;

use self::echo::Echo;

/// Sends a byte to the server and returns what comes back.
fn echoed(client: &mut TcpStream) -> u8 {
    let mut back = [0];
    client.write_all(b"x").unwrap();
    client.read_exact(&mut back).unwrap();
    back[0]
}

static BLOCKS: AtomicBool = AtomicBool::new(false);
/// What a subscriber that uses the library uses, if it should.
static REENTERS: Mutex<Option<(NetGroup, Server)>> = Mutex::new(None);
static REENTERED: AtomicUsize = AtomicUsize::new(0);

/// Uses the library from within a method of the subscriber, in each way that does not wait.
fn reenter() {
    let Some((group, server)) = REENTERS.lock().unwrap().clone() else {
        return;
    };
    REENTERED.fetch_add(1, Ordering::Relaxed);
    server.pause_accepting();
    drop((server.metrics(), server.dump()));
    server.resume_accepting();
    if let Some(home) = EventLoop::current() {
        home.execute(|| ()).unwrap();
        drop(home.spawn_local(async {}).unwrap());
        block_on(async {}).expect_err("this thread drives a loop");
    }
    let client = Client::builder(&group).pipeline(|p| p.add("echo", Echo));
    drop(client.connect(server.local_addr()));
}

/// Whatever the subscriber does, bytes come back, and the drain it begins itself ends.
fn reentered(recorder: &Recorder, group: &NetGroup) {
    let server = Server::builder(group)
        .pipeline(|p| p.add("echo", Echo))
        .max_connections(50)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut client = TcpStream::connect(server.local_addr()).unwrap();
    assert_eq!(echoed(&mut client), b'x');
    *REENTERS.lock().unwrap() = Some((group.clone(), server.clone()));
    for _ in 0..10 {
        assert_eq!(echoed(&mut client), b'x');
    }
    until("connections are refused", || {
        !recorder.events("refused").is_empty()
    });
    *REENTERS.lock().unwrap() = None;
    assert!(REENTERED.load(Ordering::Relaxed) > 0);
    drop(client);
    let drained = server.drain(Duration::ZERO).wait().unwrap();
    assert!(drained.open <= 50, "{drained}");
}

#[test]
fn a_subscriber_that_panics_costs_no_connection_and_one_that_blocks_holds_its_own_loop() {
    let recorder = Recorder::new();
    let stop = Stop::new();
    let inside = stop.closure();
    recorder.on_call(move |method| {
        if method == "enter" && BLOCKS.swap(false, Ordering::Relaxed) {
            inside();
        }
        reenter();
    });
    set_global_default(recorder.clone()).unwrap();
    let group: NetGroup = tidegate_net::pinned("io", 2).unwrap();
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();

    recorder.set_panics(true);
    let mut before = TcpStream::connect(server.local_addr()).unwrap();
    assert_eq!(echoed(&mut before), b'x');
    recorder.set_panics(false);
    assert_eq!(echoed(&mut before), b'x', "a connection without a span");

    // The connections take turns on the two loops.
    let mut one = TcpStream::connect(server.local_addr()).unwrap();
    assert_eq!(echoed(&mut one), b'x');
    let mut two = TcpStream::connect(server.local_addr()).unwrap();
    assert_eq!(echoed(&mut two), b'x');
    recorder.set_panics(true);
    assert_eq!(echoed(&mut one), b'x', "a turn outside of its span");
    recorder.set_panics(false);

    BLOCKS.store(true, Ordering::Relaxed);
    one.write_all(b"y").unwrap();
    stop.reached();
    assert_eq!(echoed(&mut two), b'x');
    stop.go_on();
    let mut back = [0];
    one.read_exact(&mut back).unwrap();
    assert_eq!(back, *b"y");
    drop((before, one, two));
    reentered(&recorder, &group);
    for span in recorder.spans("connection") {
        assert!(span.entered >= span.left, "{span:?}");
    }
}
