//! Servers that mean no good, and ports where something else answers. Each call ends with an error
//! that names the host, the phase, and whether the request was sent. The client goes on.

use tidegate_http::client::{Phase, Side};
use tidegate_promise::Failure;

use crate::*;

/// A response, and what is expected of the error.
struct Case {
    what: &'static str,
    response: Vec<u8>,
    phase: Phase,
}

fn case(what: &'static str, response: impl Into<Vec<u8>>, phase: Phase) -> Case {
    let response = response.into();
    Case {
        what,
        response,
        phase,
    }
}

fn chunked(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

/// Makes a call to a server that responds with these bytes and leaves the connection open.
fn call(upstream: &Upstream, client: &Client, response: &[u8]) -> ClientError {
    let call = client.get(upstream.url("/path")).send();
    let mut peer = upstream.accept();
    peer.request();
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
    use Phase::{Body, Head};
    let long = "x".repeat(64 * 1024);
    let cases = [
        case("SSH", "SSH-2.0-OpenSSH_9.2\r\n\r\n", Head),
        case("SMTP", "220 mail ESMTP\r\n\r\n", Head),
        case("HTTP/0.9", "<html>hello</html>\r\n\r\n", Head),
        case(
            "HTTP/2",
            b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\0\0".to_vec(),
            Head,
        ),
        case("a TLS alert", b"\x15\x03\x01\0\x02\x02\x46".to_vec(), Head),
        case("zeros", vec![0; 100], Head),
        case("another version", "HTTP/3.0 200 OK\r\n\r\n", Head),
        case("a short status", "HTTP/1.1 20 OK\r\n\r\n", Head),
        case("a long status", "HTTP/1.1 2000 OK\r\n\r\n", Head),
        case("no colon", "HTTP/1.1 200 OK\r\nfield\r\n\r\n", Head),
        case(
            "a folded line",
            "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
            Head,
        ),
        case("a bare line feed", "HTTP/1.1 200 OK\na: b\n\n", Head),
        case("a long line", format!("HTTP/1.1 200 {long}"), Head),
        case(
            "a long field",
            format!("HTTP/1.1 200 OK\r\na: {long}"),
            Head,
        ),
        case(
            "many fields",
            format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(9000)),
            Head,
        ),
        case(
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            Head,
        ),
        case(
            "a list",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab",
            Head,
        ),
        case(
            "a sign",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            Head,
        ),
        case(
            "an overflow",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            Head,
        ),
        case(
            "both",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Head,
        ),
        case("no digit", chunked("zz\r\n"), Body),
        case("a large chunk", chunked("fffffffffffffffff\r\n"), Body),
        case("a long size", chunked(&"0".repeat(100_000)), Body),
        case(
            "long extensions",
            chunked(&format!("1;{long}\r\na\r\n")),
            Body,
        ),
        case(
            "long trailers",
            chunked(&format!("0\r\na: {long}\r\n\r\n")),
            Body,
        ),
        case("no line end", chunked("1\r\nab\r\n"), Body),
        case(
            "too much for the caller",
            chunked(&format!("200000\r\n{}", long.repeat(32))),
            Body,
        ),
    ];
    let (upstream, client) = (Upstream::new(), client());
    for Case {
        what,
        response,
        phase,
    } in cases
    {
        let why = call(&upstream, &client, &response);
        let text = why.to_string();
        assert_eq!(why.phase(), phase, "{what}: {text}");
        assert!(why.was_sent() && !why.is_safe_to_retry(), "{what}: {text}");
        let host = upstream.0.local_addr().unwrap().to_string();
        assert!(
            text.contains(&host) && text.contains("the request was sent"),
            "{what}: {text}"
        );
        let ours = why.side() == Side::Caller;
        assert_eq!(ours, what == "too much for the caller", "{what}: {text}");
    }
    // The client is as good as before.
    let last = client.get(upstream.url("/")).send();
    let mut peer = upstream.accept();
    peer.request();
    peer.respond(OK);
    assert_eq!(text(last), "ok");
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
fn a_response_in_single_bytes_is_understood() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.get(upstream.url("/")).send();
    let mut peer = upstream.accept();
    peer.request();
    peer.0.set_nodelay(true).unwrap();
    for byte in chunked("2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n").bytes() {
        peer.0.write_all(&[byte]).unwrap();
    }
    assert_eq!(text(call), "ok");
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
        assert!(
            text.contains(host) && text.contains("nothing was sent"),
            "{text}"
        );
    }
}
