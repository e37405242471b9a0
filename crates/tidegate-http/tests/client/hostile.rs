//! Servers that mean no good, and ports where something else answers. Each call ends with an error
//! that names the host, the phase, and whether the request was sent. The client goes on.

use tidegate_http::client::{Phase, Side};
use tidegate_promise::Failure;
use tidegate_testkit::has;

use crate::*;

fn chunked(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

/// Makes a call to a server that responds with these bytes and leaves the connection open.
fn call(upstream: &Upstream, client: &Client, response: &[u8]) -> ClientError {
    let call = client.get(upstream.url("/path")).send();
    let mut peer = upstream.accept_request();
    // The client may end the connection before it has read everything.
    let _ = peer.0.write_all(response);
    let why = match call.wait() {
        Ok(response) => error(response.collect(1 << 20)),
        Err(why) => {
            let why = why.failure().unwrap();
            why.downcast_ref::<ClientError>().unwrap().clone()
        }
    };
    peer.wait_closed();
    why
}

#[test]
fn responses_that_are_no_http_are_errors_and_their_connections_are_closed() {
    let long = "x".repeat(64 * 1024);
    let fields = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    let text = str::to_owned;
    let heads = [
        ("SSH", text("SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        ("SMTP", text("220 mail ESMTP\r\n\r\n")),
        ("HTTP/0.9", text("<html>hello</html>\r\n\r\n")),
        (
            "HTTP/2",
            text("\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\0\0"),
        ),
        ("a TLS alert", text("\x15\x03\x01\0\x02\x02\x46")),
        ("zeros", "\0".repeat(100)),
        ("another version", text("HTTP/3.0 200 OK\r\n\r\n")),
        ("a short status", text("HTTP/1.1 20 OK\r\n\r\n")),
        ("a long status", text("HTTP/1.1 2000 OK\r\n\r\n")),
        ("no colon", fields("field")),
        ("a folded line", fields("a: b\r\n c")),
        ("a bare line feed", text("HTTP/1.1 200 OK\na: b\n\n")),
        ("a long line", format!("HTTP/1.1 200 {long}")),
        ("a long field", fields(&format!("a: {long}"))),
        ("many fields", fields(&"a: b\r\n".repeat(9000))),
        (
            "two lengths",
            fields("Content-Length: 1\r\nContent-Length: 2"),
        ),
        ("a list", fields("Content-Length: 1, 2")),
        ("a sign", fields("Content-Length: -1")),
        ("another sign", fields("Content-Length: +2")),
        ("two numbers", fields("Content-Length: 2 2")),
        ("another base", fields("Content-Length: 0x2")),
        ("a space before a colon", fields("Content-Length : 2")),
        ("a folded first line", fields(" Content-Length: 2")),
        ("a bare return", fields("X: a\rContent-Length: 2")),
        ("a control byte", fields("X: a\0b")),
        (
            "chunked twice",
            fields("Transfer-Encoding: chunked, chunked"),
        ),
        ("another coding", fields("Transfer-Encoding: xchunked")),
        (
            "an overflow",
            fields("Content-Length: 99999999999999999999"),
        ),
        (
            "both",
            fields("Content-Length: 1\r\nTransfer-Encoding: chunked"),
        ),
    ];
    let too_much = "too much for the caller";
    let bodies = [
        ("no digit", chunked("zz\r\n")),
        ("a large chunk", chunked("fffffffffffffffff\r\n")),
        ("a long size", chunked(&"0".repeat(100_000))),
        ("long extensions", chunked(&format!("1;{long}\r\na\r\n"))),
        ("long trailers", chunked(&format!("0\r\na: {long}\r\n\r\n"))),
        ("no line end", chunked("1\r\nab\r\n")),
        (too_much, chunked(&format!("200000\r\n{}", long.repeat(32)))),
    ];
    let heads = heads.map(|case| (case, Phase::Head));
    let bodies = bodies.map(|case| (case, Phase::Body));
    let (upstream, client) = (Upstream::new(), client());
    for ((what, response), phase) in heads.into_iter().chain(bodies) {
        let why = call(&upstream, &client, response.as_bytes());
        let text = why.to_string();
        assert_eq!(why.phase(), phase, "{what}: {text}");
        assert!(why.was_sent() && !why.is_safe_to_retry(), "{what}: {text}");
        let host = upstream.0.local_addr().unwrap().to_string();
        assert!(
            text.contains(&host) && text.contains("the request was sent"),
            "{what}: {text}"
        );
        let ours = why.side() == Side::Caller;
        assert_eq!(ours, what == too_much, "{what}: {text}");
    }
    // The client is as good as before.
    let last = client.get(upstream.url("/")).send();
    upstream.accept().serve(last);
}

#[test]
fn a_server_that_speaks_first_is_not_understood() {
    let (upstream, client) = (Upstream::new(), client());
    let url = upstream.url("/");
    std::thread::spawn(move || {
        loop {
            let mut peer = upstream.accept();
            let _ = peer.0.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n");
            let _ = peer.0.read(&mut [0; 1000]);
        }
    });
    let why = error(client.get(&url).send());
    // The banner may come before the request is sent, or after it.
    let phase = why.phase();
    assert!(matches!(phase, Phase::Head | Phase::Connect), "{why}");
    assert_eq!(why.side(), Side::Server, "{why}");
}

#[test]
fn errors_before_the_connection_name_the_host_and_that_nothing_was_sent() {
    let unknown = builder()
        .resolver(|_, _| Completion::failed(Failure::new(std::io::Error::other("no such name"))))
        .build();
    let full = builder().max_connections(1).max_waiting(0).build();
    let silent = Upstream::new();
    let _running = full.get(silent.url("/")).send();
    let cases = [
        (client().get("http:///path"), Phase::Request, "http:///path"),
        (
            client().get("http://host.test:0/"),
            Phase::Request,
            "host.test",
        ),
        (
            unknown.get("http://name.test/"),
            Phase::Connect,
            "name.test",
        ),
        (
            client().get("http://127.0.0.1:1/"),
            Phase::Connect,
            "127.0.0.1:1",
        ),
        (full.get(silent.url("/")), Phase::Wait, "127.0.0.1"),
    ];
    for (request, phase, host) in cases {
        let why = error(request.send());
        let text = why.to_string();
        assert_eq!((why.phase(), why.was_sent()), (phase, false), "{text}");
        has(&text, ["nothing was sent", host]);
    }
}
