//! Requests that are sent again although their body has ended: it has no bytes, and its end is sent again,
//! too.

use tidegate_testkit::has;

use crate::*;

const EMPTY: &str = "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
                     Trailer: Checksum\r\n\r\n0\r\nChecksum: 7\r\n\r\n";

/// Reads the whole request.
fn read(server: &mut Peer) {
    let head = server.head();
    has(&head, ["T /a HTTP/1.1"]);
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    assert_eq!(server.head(), "0\r\nChecksum: 7\r\n\r\n");
}

#[test]
fn on_a_new_connection_in_place_of_one_that_was_closed() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = serve_first(&fixture, &back);
    client.write(EMPTY);
    read(&mut server);
    drop(server);
    let mut server = back.accept();
    read(&mut server);
    server.answer(&mut client);
    // The connection is used again.
    client.ask(&mut server);
    fixture.wait_idle();
    assert_eq!(fixture.total(Event::Success), 3);
}

#[test]
fn in_another_attempt() {
    let settings = [
        "retry = 1",
        "timeout = \"9s\"\nretry = { times = 1, attempt_timeout = \"1s\" }",
    ];
    for settings in settings {
        let (one, two) = (Upstream::new(), Upstream::new());
        let fixture = Fixture::with_route(&[&one, &two], settings);
        let (mut client, mut server) = fixture.reach(EMPTY, &one);
        read(&mut server);
        if settings.contains("attempt_timeout") {
            fixture.clock.advance(Duration::from_millis(1100));
        } else {
            drop(server);
        }
        let mut server = two.accept();
        read(&mut server);
        server.write(OK);
        assert_eq!(client.message().body, "ok", "{settings}");
    }
}

#[test]
fn at_the_upstream_of_the_fallback() {
    let (back, spare) = (Upstream::new(), Upstream::new());
    let text = with_other(&back, &spare, "fallback = { upstream = \"other\" }");
    let fixture = Fixture::new(&text);
    // Another service gets it only because its method is safe.
    let mut client = fixture.send(&EMPTY.replace("PUT", "GET"));
    read(&mut back.accept());
    let mut server = spare.accept();
    read(&mut server);
    server.answer(&mut client);
}
