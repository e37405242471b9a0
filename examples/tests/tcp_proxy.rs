//! What passes through the proxy example: half-closed connections, and resets.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

#[expect(dead_code, reason = "the program's own beginning")]
#[path = "../tcp_proxy.rs"]
mod tcp_proxy;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use tidegate::net::{NetGroup, Server};

/// A client and its server, with the proxy between them.
struct Through {
    client: TcpStream,
    behind: TcpStream,
    proxy: (Server, NetGroup),
}

fn through() -> Through {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let group = tidegate::net::pinned("proxy", 2).unwrap();
    let server = tcp_proxy::serve(&group, "127.0.0.1:0", upstream)
        .wait()
        .unwrap();
    let mut client = TcpStream::connect(server.local_addr()).unwrap();
    client.write_all(b"question").unwrap();
    let (mut behind, _) = listener.accept().unwrap();
    let mut received = [0; 8];
    behind.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"question");
    Through {
        client,
        behind,
        proxy: (server, group),
    }
}

fn reset(stream: TcpStream) {
    let socket = socket2::SockRef::from(&stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

fn reads_a_reset(mut stream: TcpStream) {
    let why = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_answer_after_a_half_close_comes_back() {
    let mut through = through();
    through.client.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    through.behind.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "the end arrives");
    through.behind.write_all(b"answer").unwrap();
    drop(through.behind);
    through.client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "answer");
}

#[test]
fn the_server_may_end_its_half_first() {
    let mut through = through();
    through.behind.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    through.client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    through.client.write_all(b"more").unwrap();
    drop(through.client);
    through.behind.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "more");
}

#[test]
fn a_reset_of_one_side_is_a_reset_for_the_other() {
    let one = through();
    reset(one.client);
    reads_a_reset(one.behind);
    let other = through();
    reset(other.behind);
    reads_a_reset(other.client);
}

#[test]
fn a_server_that_is_not_there_is_a_reset_for_the_client() {
    // No other test can listen there.
    let upstream = "127.0.0.1:1".parse().unwrap();
    let group = tidegate::net::pinned("proxy", 1).unwrap();
    let server = tcp_proxy::serve(&group, "127.0.0.1:0", upstream)
        .wait()
        .unwrap();
    reads_a_reset(TcpStream::connect(server.local_addr()).unwrap());
}

#[test]
fn a_drain_lets_both_sides_finish() {
    let mut through = through();
    let drained = through.proxy.0.drain(Duration::from_secs(60));
    // After this wait new connections are refused: the proxy accepts no more, and has notified its
    // connections.
    through.proxy.0.closed().wait().unwrap();
    through.client.write_all(b" and more").unwrap();
    through.client.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    through.behind.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " and more");
    drop(through.behind);
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}
