//! Requests that reach a server, and responses that reach the client.

use std::io::Read;
use std::thread;

use tidegate_testkit::{Folder, begins, lacks};

use crate::steps::{ENDLESS, take, write_until_stalled};
use crate::*;

#[test]
fn a_server_responds_while_it_reads_the_request() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.begin(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none",
        &back,
    );
    assert_eq!(server.bytes(3), "one");
    server.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none");
    client.head();
    assert_eq!(client.bytes(3), "one");
    client.sends("two", &mut server);
    server.sends("two", &mut client);
    // Both connections go on.
    client.ask(&mut server);
    fixture.wait_idle();
}

#[test]
fn a_request_and_its_response_pass_with_the_fields_of_a_proxy() {
    let (back, fixture) = Fixture::of("server_timing = true");
    let mut client = fixture.send(
        "GET /x/../a%2fb?q=1 HTTP/1.1\r\nHost: shop.example:80\r\nConnection: x-own\r\nX-Own: 1\r\n\
         X-Forwarded-For: 6.6.6.6\r\nAccept: text/plain\r\n\r\n",
    );
    let mut server = back.accept();
    let request = server.serve(
        "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\n\
         Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nServer: back\r\n\r\nhello",
    );
    assert_eq!(request.line(), "GET /a%2Fb?q=1 HTTP/1.1");
    for (name, value) in [
        ("host", Some("shop.example:80")),
        ("accept", Some("text/plain")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("via", Some("1.1 tidegate")),
        ("x-own", None),
        ("connection", None),
    ] {
        assert_eq!(request.field(name), value, "{name}");
    }
    begins(request.field("forwarded").unwrap(), "for=127.0.0.1;host=");
    assert!(request.field("traceparent").is_some());
    let response = client.gets("201", "hello");
    assert_eq!(response.head.matches("Set-Cookie").count(), 2);
    for (name, value) in [
        ("server", Some("back")),
        ("x-request-id", request.field("x-request-id")),
        ("x-hop", None),
        ("connection", None),
    ] {
        assert_eq!(response.field(name), value, "{name}");
    }
    begins(response.field("server-timing").unwrap(), "queue;dur=");
    assert!(response.field("date").is_some());
    fixture.wait_idle();
}

#[test]
fn a_server_does_not_speak_for_the_gateway() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(GET);
    back.accept().serve(
        "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\
         Tidegate-Refused: limit shop\r\ntidegate-failed: timeout shop\r\nRetry-After: 7\r\n\r\n\
         0\r\nTidegate-Failed: closed shop\r\nChecksum: 1\r\n\r\n",
    );
    let head = client.head();
    assert_eq!(field(&head, "retry-after"), Some("7"));
    lacks(head.to_ascii_lowercase(), ["tidegate-"]);
    let end = "0\r\nChecksum: 1\r\n\r\n";
    assert_eq!(client.bytes(end.len()), end);
}

#[test]
fn another_spelling_of_a_forwarded_field_does_not_reach_a_server() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(
        "GET /a HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 6.6.6.6\r\nx_real-ip: 6.6.6.6\r\n\
         X_Request_Id: 6\r\nUser_Name: me\r\n\r\n",
    );
    let request = back.accept().serve(OK);
    lacks(&request.head, ["6.6.6.6"]);
    assert_eq!(request.field("x_request_id"), None);
    assert_eq!(request.field("user_name"), Some("me"));
    assert_eq!(client.message().body, "ok");
}

#[test]
fn a_request_is_passed_on_as_often_as_it_says() {
    let (back, fixture) = Fixture::of("limit = 1");
    let ask = |method: &str, hops: &str| {
        format!("{method} /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: {hops}\r\n\r\n")
    };
    let mut client = fixture.client();
    let mut server = None;
    let rows = [
        ("OPTIONS", "5", "4"),
        ("TRACE", "1", "0"),
        ("OPTIONS", "none", "none"),
        ("GET", "0", "0"),
        ("GET", "5", "5"),
    ];
    for (method, hops, passed) in rows {
        client.write(&ask(method, hops));
        let server = server.get_or_insert_with(|| back.accept());
        let request = server.message();
        assert_eq!(request.field("max-forwards"), Some(passed), "{method}");
        server.answer(&mut client);
    }
    // The gateway itself responds, also while the route has no permit.
    client.write(GET);
    let server = server.as_mut().unwrap();
    server.message();
    for (method, status) in [("OPTIONS", "200"), ("TRACE", "501")] {
        let secret = "Cookie: marker\r\n\r\n";
        let request = ask(method, "0").replacen("\r\n\r\n", &format!("\r\n{secret}"), 1);
        let response = fixture.send(&request).message();
        assert_eq!(response.status(), status, "{method}");
        assert!(!response.body.contains("marker"), "{method}");
        assert!(response.field("x-request-id").is_some(), "{method}");
    }
    server.answer(&mut client);
    assert!(back.is_quiet());
}

#[test]
fn a_question_about_the_whole_server_is_passed_on_as_it_is() {
    for settings in ["", "rewrite = { request = { x-own = \"b\" } }"] {
        let (back, fixture) = Fixture::of(settings);
        let ask = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut client = fixture.send(ask);
        assert_eq!(back.accept().serve(OK).line(), "OPTIONS * HTTP/1.1");
        assert_eq!(client.message().body, "ok");
        client.write(&ask.replace("\r\n\r\n", "\r\nMax-Forwards: 0\r\n\r\n"));
        assert_eq!(client.message().status(), "200");
        assert!(back.is_quiet());
    }
}

#[test]
fn a_target_passes_as_a_browser_sends_it() {
    let settings = "path = \"/p/*\"\nrewrite = { path = \"/q/{rest}\" }";
    let (back, fixture) = Fixture::of(settings);
    let mut client = fixture.client();
    let mut server = None;
    for target in [
        "/a|b^?family=Roboto|Open+Sans",
        "/{x}?filter={a}^`\\d",
        "/%7C/./?|",
    ] {
        client.write(&GET.replace("/a", &format!("/p{target}")));
        let server = server.get_or_insert_with(|| back.accept());
        let expected = target.replace("/./", "/");
        assert_eq!(
            server.serve(OK).line(),
            format!("GET /q{expected} HTTP/1.1")
        );
        assert_eq!(client.message().status(), "200");
    }
    for target in ["/\\", "/?<", "/?\"", "/`", "/\u{e4}", "/?\u{e4}"] {
        let response = fixture.send(&GET.replace("/a", &format!("/p{target}")));
        assert_eq!({ response }.message().status(), "400", "{target}");
    }
}

#[test]
fn connections_of_both_sides_are_used_again() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.client();
    client.write(GET);
    let mut server = back.accept();
    server.serve_ok(&mut client);
    for _ in 0..10 {
        client.ask(&mut server);
    }
    assert!(back.is_quiet());
}

#[test]
fn pipelined_requests_get_their_responses_in_order() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(&format!("{GET}{}", GET.replace("/a", "/b")));
    let (mut one, mut two) = (back.accept(), back.accept());
    let respond = |server: &mut Peer| {
        let path = server.message().line().to_owned();
        let path = path.split(' ').nth(1).unwrap().to_owned();
        server.write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{path}"
        ));
    };
    respond(&mut two);
    respond(&mut one);
    assert_eq!(client.message().body, "/a");
    assert_eq!(client.message().body, "/b");
}

#[test]
fn bodies_and_trailers_pass_in_both_directions() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\nChecksum: 17\r\n\r\n",
    );
    let mut server = back.accept();
    let head = server.head();
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    // Small chunks that came together are joined.
    let body = "5\r\nabcde\r\n0\r\nChecksum: 17\r\n\r\n";
    assert_eq!(server.bytes(body.len()), body);
    server.write(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nback\r\n0\r\nChecksum: 4\r\n\r\n",
    );
    let response = client.head();
    assert_eq!(field(&response, "transfer-encoding"), Some("chunked"));
    let body = "4\r\nback\r\n0\r\nChecksum: 4\r\n\r\n";
    assert_eq!(client.bytes(body.len()), body);
}

#[test]
fn a_body_with_a_length_keeps_it() {
    let (back, fixture) = Fixture::of("");
    let request = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let (mut client, mut server) = fixture.reach(request, &back);
    let got = server.serve("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(got.body, "hello");
    assert_eq!(got.field("content-length"), Some("5"));
    let response = client.gets("204", "");
    assert_eq!(response.field("content-length"), None);
}

#[test]
fn the_response_to_a_head_request_declares_the_length_of_the_body() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.reach(&GET.replace("GET", "HEAD"), &back);
    server.serve("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    let head = client.head();
    assert_eq!(field(&head, "content-length"), Some("1000"));
    // Both connections go on.
    client.ask(&mut server);
}

#[test]
fn a_response_that_ends_with_its_connection_becomes_chunked() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.reach(GET, &back);
    server.serve("HTTP/1.1 200 OK\r\n\r\nall of it");
    drop(server);
    let head = client.head();
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    let body = "9\r\nall of it\r\n0\r\n\r\n";
    assert_eq!(client.bytes(body.len()), body);
}

#[test]
fn a_client_of_the_old_version_gets_the_end_of_its_connection() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.reach("GET /a HTTP/1.0\r\nHost: a\r\n\r\n", &back);
    let request =
        server.serve("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    assert_eq!(request.line(), "GET /a HTTP/1.1");
    let text = client.rest();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!((body, field(head, "transfer-encoding")), ("ok", None));
}

#[test]
fn a_server_sees_the_host_that_the_route_has_seen() {
    let (back, fixture) = Fixture::of("host = \"real.example\"");
    let absolute = "GET http://real.example/x HTTP/1.1\r\nHost: real.example\r\n\r\n";
    let mut client = fixture.send(absolute);
    let request = back.accept().serve(OK);
    assert_eq!(request.line(), "GET /x HTTP/1.1");
    assert_eq!(request.field("host"), Some("real.example"));
    assert_eq!(client.message().status(), "200");
    let other = "GET /x HTTP/1.1\r\nHost: other.example\r\n\r\n";
    assert_eq!(fixture.send(other).message().status(), "404");
    let both = absolute.replace("Host: real", "Host: other");
    assert_eq!(fixture.send(&both).message().status(), "400");
}

/// More than the gateway holds, and less than what the systems may hold.
const LARGE: usize = 8 << 20;

#[test]
fn a_large_response_reaches_the_client_whole() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.open(GET, &back);
    let writer = thread::scope(|scope| {
        let sent = scope.spawn(move || {
            server.write(&format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"
            ));
            server.write(&"x".repeat(LARGE));
            server
        });
        let head = client.head();
        assert_eq!(field(&head, "content-length"), Some(&*LARGE.to_string()));
        take(&mut client, LARGE);
        sent.join().unwrap()
    });
    // The connection is usable after it.
    let mut server = writer;
    client.ask(&mut server);
}

#[test]
fn a_large_request_reaches_the_server_whole() {
    let (back, fixture) = Fixture::of("");
    let head = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n");
    let (mut client, mut back) = fixture.reach(&head, &back);
    thread::scope(|scope| {
        let sent = scope.spawn(|| client.write(&"y".repeat(LARGE)));
        let got = back.message();
        assert_eq!(got.body.len(), LARGE);
        assert!(got.body.bytes().all(|byte| byte == b'y'));
        sent.join().unwrap();
    });
    back.answer(&mut client);
}

/// Returns `true` if the socket takes more.
fn takes_more(peer: &Peer) -> bool {
    peer.0.wait_writable(PATIENCE)
}

#[test]
fn a_sender_waits_as_long_as_its_receiver_takes_nothing() {
    for is_response in [false, true] {
        let (back, fixture) = Fixture::of("timeout = false");
        let length = format!("Content-Length: {}\r\n\r\n", 2 * ENDLESS);
        let mut client = fixture.send(&match is_response {
            false => format!("POST /a HTTP/1.1\r\nHost: a\r\n{length}"),
            true => GET.to_owned(),
        });
        let mut server = back.accept_head();
        if is_response {
            server.write(&format!("HTTP/1.1 200 OK\r\n{length}"));
            client.head();
        }
        let (sender, receiver) = match is_response {
            false => (&mut client, &mut server),
            true => (&mut server, &mut client),
        };
        // It goes on when the receiver has taken what was sent.
        for round in 0..3 {
            let sent = write_until_stalled(&fixture, sender);
            assert!(sent < ENDLESS, "round {round}, response: {is_response}");
            take(receiver, sent);
            assert!(takes_more(sender));
        }
        drop((client, server));
        fixture.wait_idle();
    }
}

/// The gateway holds many of them when the server takes more again.
#[test]
fn small_pieces_of_a_request_pass_when_the_server_takes_more() {
    const PIECES: usize = 32 << 10;
    let (back, fixture) = Fixture::of("timeout = false");
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut client, mut server) = fixture.begin(head, &back);
    let mut body = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(PIECES);
    body.push_str("0\r\n\r\n");
    thread::scope(|scope| {
        let sent = scope.spawn(|| client.write(&body));
        let mut got = Vec::new();
        let mut memory = vec![0; 1 << 20];
        while !got.ends_with(b"\r\n0\r\n\r\n") {
            // The gateway does all that it can before the server takes more.
            fixture.clock.settle();
            let read = server.0.read(&mut memory);
            let read = read.unwrap_or_else(|why| panic!("stopped after {}: {why}", got.len()));
            got.extend_from_slice(&memory[..read]);
        }
        let count = got.iter().filter(|byte| **byte == b'x').count();
        assert_eq!(count, PIECES * 1024);
        sent.join().unwrap();
    });
    server.answer(&mut client);
}

#[test]
fn a_response_before_the_end_of_the_request_reaches_the_client() {
    let (back, fixture) = Fixture::of("");
    let mut client =
        fixture.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbegin");
    let mut server = back.accept_head();
    assert_eq!(server.bytes(5), "begin");
    server.write("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    client.gets("413", "no");
}

const EXPECTS: &str =
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn an_expectation_is_passed_on_and_the_server_decides() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.reach(EXPECTS, &back);
    let head = server.head();
    assert_eq!(field(&head, "expect"), Some("100-continue"));
    server.write("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.sends("ab", &mut server);
    server.answer(&mut client);
}

#[test]
fn a_server_may_refuse_a_body_before_it_is_sent() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.begin(EXPECTS, &back);
    server.write("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    let response = client.gets("403", "no");
    assert_eq!(response.field("connection"), Some("close"));
    fixture.wait_idle();
}

#[test]
fn a_server_that_does_not_know_expectations_gets_the_body_after_a_moment() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = fixture.begin(EXPECTS, &back);
    fixture.clock.advance(Duration::from_millis(1100));
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.sends("ab", &mut server);
    server.answer(&mut client);
}

#[test]
fn fields_of_a_trusted_peer_are_kept() {
    let back = Upstream::new();
    let text = route(&[&back], "").replace(
        "[upstream",
        "[listen.inside]\nat = \"127.0.0.1:0\"\ntrust = [\"127.0.0.0/8\"]\n[upstream",
    );
    let fixture = Fixture::new(&text);
    let addresses = fixture.gateway.addresses();
    let inside = addresses.iter().find(|(name, _)| name == "inside").unwrap();
    let mut client = fixture.connect(&inside.1);
    client.write(
        "GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\nX-Request-Id: r1\r\n\r\n",
    );
    let request = back.accept().serve(OK);
    assert_eq!(request.field("x-forwarded-for"), Some("1.2.3.4, 127.0.0.1"));
    assert_eq!(request.field("x-request-id"), Some("r1"));
}

#[test]
fn routes_rewrite_requests_and_responses() {
    let settings = "path = \"/users/{id}/*\"\nrewrite = { path = \"/v2/{id}/{rest}\", host = \"inner\", \
                    request = { x-source = \"gateway\" }, response = { server = \"\", x-a = \"b\" } }";
    let (back, fixture) = Fixture::of(settings);
    let mut client = fixture.send(&GET.replace("/a", "/users/7/orders/1?x"));
    let request = back
        .accept()
        .serve("HTTP/1.1 200 OK\r\nServer: x\r\nX-A: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(request.line(), "GET /v2/7/orders/1?x HTTP/1.1");
    assert_eq!(request.field("host"), Some("inner"));
    assert_eq!(request.field("x-source"), Some("gateway"));
    assert_eq!(request.field("x-forwarded-host"), Some("shop.example"));
    let response = client.message();
    assert_eq!(
        (response.field("server"), response.field("x-a")),
        (None, Some("b"))
    );
}

#[cfg(unix)]
#[test]
fn clients_and_servers_may_be_unix_sockets() {
    use std::os::unix::net::{UnixListener, UnixStream};

    let directory = Folder::new("unix");
    let (front, back) = (directory.join("front.sock"), directory.join("back.sock"));
    let listener = UnixListener::bind(&back).unwrap();
    // A socket that an earlier process has left behind.
    drop(UnixListener::bind(&front).unwrap());
    let fixture = Fixture::new(&format!(
        "inside = \"unix:{}\"\n[upstream.back]\nservers = \"unix:{}\"\n[route.r]\nupstream = \"back\"\n",
        front.display(),
        back.display()
    ));
    let mut client = UnixStream::connect(&front).unwrap();
    client.write_all(GET.as_bytes()).unwrap();
    let mut server = listener.accept().unwrap().0;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(
        String::from_utf8(head)
            .unwrap()
            .contains("Forwarded: for=unknown")
    );
    server.write_all(OK.as_bytes()).unwrap();
    let mut got = vec![0; 15];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got, b"HTTP/1.1 200 OK");
    drop(fixture);
    assert!(!front.exists(), "the gateway removes its socket");
}
