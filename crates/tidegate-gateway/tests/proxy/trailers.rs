//! Fields behind a body: what the head may not carry, they may not carry.

use crate::operation::World;
use crate::*;

/// A client that sends claims behind its body.
const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nConnection: x-hop\r\n\
    Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nForwarded: for=1.2.3.4\r\n\
    X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_User: root\r\nX-Real-IP: 1.2.3.4\r\n\
    X-Request-Id: mine\r\nX-Hop: 1\r\nX-User: root\r\nChecksum: 7\r\n\r\n";

const ANSWER: &str = "HTTP/1.1 200 OK\r\nConnection: close, x-hop\r\n\
    Transfer-Encoding: chunked\r\n\r\n\
    1\r\nb\r\n0\r\nX-Hop: 1\r\nX-Debug: 2\r\nChecksum: 8\r\n\r\n";

/// A server that merges trailers into the head would believe them. A trusted peer may have them from its
/// own client.
#[test]
fn trailers_do_not_carry_what_the_head_may_not() {
    for trust in ["", "trust = \"127.0.0.0/8\"\n"] {
        let back = Upstream::new();
        let rewrite = "rewrite = { request = { x-user = \"\" }, response = { x-debug = \"\" } }";
        let world = World::with(format!(
            "[listen.http]\nat = \"127.0.0.1:0\"\n{trust}{}",
            route(&[&back], rewrite)
        ));
        let (mut client, mut server) = world.begin(POST, &back);
        let body = "1\r\na\r\n0\r\nChecksum: 7\r\n\r\n";
        assert_eq!(server.bytes(body.len()), body, "{trust}");
        server.write(ANSWER);
        client.head();
        let body = "1\r\nb\r\n0\r\nChecksum: 8\r\n\r\n";
        assert_eq!(client.bytes(body.len()), body, "{trust}");
    }
}

#[test]
fn a_chunked_response_has_the_times_of_its_head_and_of_its_body() {
    let (back, fixture) = Fixture::of("server_timing = true");
    let (mut client, mut server) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_millis(20));
    server.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n");
    let head = client.head();
    let timing = "queue;dur=0.0, connect;dur=0.0, head;dur=20.0";
    assert_eq!(field(&head, "server-timing"), Some(timing));
    assert_eq!(client.bytes(6), "1\r\nb\r\n");
    fixture.clock.advance(Duration::from_millis(7));
    server.write("0\r\nChecksum: 8\r\n\r\n");
    let end = "0\r\nChecksum: 8\r\nServer-Timing: body;dur=7.0\r\n\r\n";
    assert_eq!(client.bytes(end.len()), end);
    fixture.wait_idle();
}
