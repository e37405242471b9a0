//! Integration tests of `tidegate-hyper`: HTTP servers on event loops, over sockets and in memory.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod bodies;
mod clients;
mod dependencies;
mod drain;
mod ends;
mod hostile;
mod http1;
mod http2;
mod site;
mod timer;
mod tower;

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_core::{ManualClock, OnUnhandled};
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::Log;

use self::site::Site;

/// Creates a group of one event loop.
fn group() -> NetGroup {
    tidegate_net::pinned("http", 1).unwrap()
}

/// Creates a group of one event loop with a manual clock.
fn group_by(clock: &ManualClock) -> NetGroup {
    let group = NetGroup::builder("http").loops(1).clock(clock);
    group.build().unwrap()
}

/// Creates a group of one event loop, and the log of its hook for unhandled errors.
fn group_with_hook() -> (NetGroup, Log<String>) {
    let log = Log::new();
    let received = log.clone();
    let hook = OnUnhandled::new(move |_, what| received.push(what.to_string()));
    let group = NetGroup::builder("http").loops(1).report_to(hook);
    (group.build().unwrap(), log)
}

fn dial(server: &Server) -> TcpStream {
    TcpStream::connect(server.local_addr()).unwrap()
}

/// Returns the text of a request without a body.
fn sends(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut client = dial(server);
    client.write_all(bytes).unwrap();
    client
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

/// Sends a request without a body, and reads until the response ends with `end`.
fn ask(client: &mut TcpStream, path: &str, end: &str) -> String {
    client.write_all(get(path).as_bytes()).unwrap();
    read_until(client, end)
}

/// Reads until what was read ends with `end`.
fn read_until(client: &mut TcpStream, end: &str) -> String {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while !all.ends_with(end.as_bytes()) {
        let count = client.read(&mut buffer).unwrap();
        assert!(count > 0, "ended after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(all).unwrap()
}

/// Reads until the server closes the connection. It may be a reset if the server had unread bytes.
fn read_to_end(client: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all);
    String::from_utf8(all).unwrap()
}
