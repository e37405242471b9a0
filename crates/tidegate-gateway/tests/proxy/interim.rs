//! Interim responses of a server (RFC 9110, section 15.2), on their way to the client.

use crate::*;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";

#[test]
fn interim_responses_pass_without_the_fields_of_the_connection() {
    let settings = "rewrite = { response = { server = \"\", x-a = \"b\" } }";
    let (back, fixture) = Fixture::of(settings);
    let (mut client, mut server) = fixture.open(GET, &back);
    server.write("HTTP/1.1 102 Processing\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 102 Processing\r\n\r\n");
    server.write(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nServer: back\r\nTidegate-Failed: x\r\nX-Other: \u{e4}\r\n\r\n",
    );
    let hints =
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Other: \u{e4}\r\n\r\n";
    assert_eq!(client.head(), hints);
    // It comes with the response, too.
    server.write(&format!("{HINTS}{OK}"));
    assert_eq!(client.head(), HINTS);
    let response = client.gets("200", "ok");
    assert_eq!(response.field("x-a"), Some("b"));
    // Both connections go on.
    client.write(GET);
    server.serve(OK);
    assert_eq!(client.message().status(), "200");
    fixture.wait_idle();
}

#[test]
fn a_client_of_http_1_0_gets_the_response_only() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send("GET /a HTTP/1.0\r\n\r\n");
    back.accept().serve(&format!("{HINTS}{OK}"));
    assert_eq!(client.message().status(), "200");
    assert_eq!(client.rest(), "");
}

#[test]
fn interim_responses_keep_the_order_of_pipelined_requests() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(&format!("{GET}{}", GET.replace("/a", "/b")));
    let mut servers = [back.accept(), back.accept()];
    let paths = servers.each_mut().map(|server| server.message().head);
    let [first, second] = match paths[0].starts_with("GET /a ") {
        true => [0, 1],
        false => [1, 0],
    };
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nbb";
    servers[second].write(&format!("{HINTS}{close}"));
    assert_eq!(servers[second].rest(), "", "the gateway has all of it");
    servers[first].write(&format!("HTTP/1.1 102 Processing\r\n\r\n{OK}"));
    assert_eq!(client.head(), "HTTP/1.1 102 Processing\r\n\r\n");
    assert_eq!(client.message().body, "ok");
    assert_eq!(client.head(), HINTS);
    assert_eq!(client.message().body, "bb");
}

#[test]
fn a_failure_after_an_interim_response_is_a_response() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(GET);
    back.accept().serve(HINTS);
    assert_eq!(client.head(), HINTS);
    let response = client.failure("closed shop");
    assert_eq!(response.status(), "502");
}

#[test]
fn an_attempt_that_is_late_after_an_interim_response_is_not_repeated() {
    let settings = "timeout = \"10s\"\nretry = { times = 3, budget = 1, attempt_timeout = \"1s\" }";
    let (back, fixture) = Fixture::of(settings);
    let (mut client, mut server) = fixture.reach(GET, &back);
    server.serve(HINTS);
    assert_eq!(client.head(), HINTS);
    fixture.clock.advance(Duration::from_millis(1100));
    assert_eq!(client.message().status(), "504");
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
    assert!(back.is_quiet());
}

#[test]
fn hints_and_the_wish_for_the_body_pass_both() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture
        .send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    let mut server = back.accept_head();
    server.write(HINTS);
    assert_eq!(client.head(), HINTS);
    server.write("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.sends("abc", &mut server);
    server.answer(&mut client);
}
