//! A subscriber of the process that panics in each of its methods, and one that blocks. The test is
//! alone in its process.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_net::{NetGroup, Server};
use tidegate_testkit::{Gate, Recorder};
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

#[test]
fn a_subscriber_that_panics_costs_no_connection_and_one_that_blocks_holds_its_own_loop() {
    static BLOCKS: AtomicBool = AtomicBool::new(false);
    let recorder = Recorder::new();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    recorder.on_call(move |method| {
        if method == "enter" && BLOCKS.swap(false, Ordering::Relaxed) {
            here.open();
            gate.wait();
        }
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
    arrived.wait();
    assert_eq!(echoed(&mut two), b'x');
    go_on.open();
    let mut back = [0];
    one.read_exact(&mut back).unwrap();
    assert_eq!(back, *b"y");
    drop((before, one, two));
    for span in recorder.spans("connection") {
        assert!(span.entered >= span.left, "{span:?}");
    }
}
