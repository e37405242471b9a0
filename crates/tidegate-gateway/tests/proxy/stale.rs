//! Connections that end before their requests: by the server, when one is to be sent, or by us.

use std::net::Shutdown;

use crate::*;

const POST: &str = "POST /pay HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n";

/// What a server does with an idle connection.
const ENDS: [fn(&mut Peer); 2] = [
    |server| server.0.shutdown(Shutdown::Write).unwrap(),
    |server| server.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"),
];

#[test]
fn a_request_that_is_sent_elsewhere_is_not_sent_on_the_old_connection() {
    let rows = ENDS.map(|end| [(end, ""), (end, "retry = 1")]);
    for (end, settings) in rows.into_iter().flatten() {
        let back = Upstream::new();
        let fixture = Fixture::with_route(&[&back], settings);
        let mut client = fixture.send(GET);
        let mut server = back.accept();
        server.serve(OK);
        assert_eq!(client.message().body, "ok");
        fixture.in_one_turn(|| {
            client.write(POST);
            end(&mut server);
        });
        let request = back.accept().serve(OK_CLOSE);
        assert!(request.head.starts_with("POST /pay "), "{}", request.head);
        assert_eq!(client.message().body, "ok");
        assert_eq!(server.rest(), "");
        assert_eq!(fixture.total(Event::Failure), 0);
        fixture.wait_idle();
    }
}

#[test]
fn an_upload_that_is_given_up_resets_its_connection() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], "timeout = \"2s\"");
    let mut client =
        fixture.send("PUT /a HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 9\r\n\r\npart");
    let mut server = back.accept();
    server.head();
    assert_eq!(server.bytes(4), "part");
    fixture.clock.advance(Duration::from_secs(3));
    assert_eq!(client.message().status(), "408");
    // Otherwise the system would keep the rest for a server that does not read.
    let why = server.0.read(&mut [0; 9]).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::ConnectionReset);
    fixture.wait_idle();
}
