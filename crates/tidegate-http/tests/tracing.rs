//! What a subscriber of `tracing` sees of a server. A program of its own, because the subscriber is
//! that of the whole program: the event loops report from their threads.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_http::serve;
use tidegate_net::NetGroup;
use tidegate_testkit::{Recorder, until};

fn ask(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    client.set_read_timeout(patience).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn refusals_are_an_event_at_most_once_in_a_second_and_panics_are_unhandled_errors() {
    let recorder = Recorder::new();
    tracing::subscriber::set_global_default(recorder.clone()).unwrap();
    let clock = ManualClock::new();
    let group = NetGroup::builder("web").loops(1).clock(&clock);
    let group = group.build().unwrap();
    let server = serve(&group, "127.0.0.1:0", |_, _| panic!("out of ink"));
    let server = server.wait().unwrap();
    let address = server.local_addr();
    let no_host = "GET / HTTP/1.1\r\n\r\n";
    for _ in 0..3 {
        assert!(ask(address, no_host).starts_with("HTTP/1.1 400 "));
    }
    let bad_length = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n";
    assert!(ask(address, bad_length).starts_with("HTTP/1.1 400 "));
    clock.jump(Duration::from_secs(1));
    assert!(ask(address, no_host).starts_with("HTTP/1.1 400 "));
    let events = recorder.events("refused");
    let fields = |name| events.iter().map(move |event| event.field(name).unwrap());
    let left_out: Vec<_> = fields("left_out").collect();
    assert_eq!(left_out, ["0", "0", "2"], "by reason");
    let address_text = address.to_string();
    assert!(fields("name").all(|name| name == address_text));
    assert!(fields("kind").all(|kind| kind == "http_server"));
    assert!(fields("reason").all(|reason| reason.starts_with("the client ")));
    for _ in 0..2 {
        let response = ask(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    }
    until("the hook has reported", || {
        !recorder.events("unhandled_error").is_empty()
    });
    let events = recorder.events("unhandled_error");
    assert_eq!(events.len(), 1, "one in a second");
    let message = events[0].field("message").unwrap();
    assert!(message.contains("the service panicked"), "{message}");
    assert!(message.contains("out of ink"), "{message}");
    assert_eq!(server.metrics().panics, 2);
}
