//! Requests and responses.

use tidegate_http::client::Phase;
use tidegate_http::codec::Method;
use tidegate_testkit::{Log, block_on};

use crate::*;

#[test]
fn a_request_has_its_fields_in_order_and_the_length_of_its_body() {
    let (upstream, client) = (Upstream::new(), client());
    let host = upstream.0.local_addr().unwrap();
    let call = client
        .post(upstream.url("/a?b=c#d"))
        .field("X-One", "1")
        .field("x-two", b"2")
        .body("hello")
        .send();
    let mut peer = upstream.accept();
    let expected = format!(
        "POST /a?b=c HTTP/1.1\r\nHost: {host}\r\nX-One: 1\r\nx-two: 2\r\nContent-Length: 5\r\n\r\nhello"
    );
    assert_eq!(peer.request(), expected);
    peer.finish(call);
    let call = client.get(upstream.url("")).field("Host", "other").send();
    assert_eq!(peer.request(), "GET / HTTP/1.1\r\nHost: other\r\n\r\n");
    peer.finish(call);
}

#[test]
fn the_server_of_this_crate_and_the_client_understand_each_other() {
    let group = group(2);
    let server = tidegate_http::serve(&group, "127.0.0.1:0", |request, response| {
        let length = request.path().len();
        response.field("x-path", length.to_string()).body("hello");
    });
    let server = server.wait().unwrap();
    let client = Client::builder(&group).build();
    let url = format!("http://{}/some/path", server.local_addr());
    for method in [Method::Get, Method::Put, Method::Delete, Method::Options] {
        let response = client.request(method, &url).send().wait().unwrap();
        assert_eq!(
            (response.status(), response.get("X-Path")),
            (200, Some(&b"10"[..]))
        );
        assert_eq!(response.collect(5).wait().unwrap(), "hello");
    }
    let response = client.head(&url).send().wait().unwrap();
    assert_eq!(response.get("content-length"), Some(&b"5"[..]));
    assert_eq!(response.collect(0).wait().unwrap(), "");
}

#[test]
fn a_body_comes_in_pieces_and_has_trailers() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    peer.respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut body = call.wait().unwrap().into_body();
    for piece in ["one", "two"] {
        peer.respond(&format!("3\r\n{piece}\r\n"));
        let got = block_on("the next piece", body.next());
        assert_eq!(got.unwrap().unwrap(), piece);
    }
    peer.respond("0\r\nX-Sum: 6\r\n\r\n");
    assert!(block_on("the end", body.next()).is_none());
    assert_eq!(body.trailers().unwrap(), "X-Sum: 6\r\n");
}

#[test]
fn a_large_body_waits_for_its_reader_and_arrives_whole() {
    const SIZE: usize = 4 << 20;
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    let writer = std::thread::spawn(move || {
        peer.respond(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"
        ));
        peer.0.write_all(&vec![b'x'; SIZE]).unwrap();
    });
    let mut body = call.wait().unwrap().into_body();
    let mut count = 0;
    while let Some(piece) = block_on("the next piece", body.next()) {
        count += piece.unwrap().len();
    }
    assert_eq!(count, SIZE);
    writer.join().unwrap();
}

#[test]
fn a_large_body_is_sent_whole() {
    const SIZE: usize = 17 << 20;
    let (upstream, client) = (Upstream::new(), client());
    let call = client.put(upstream.url("/")).body(vec![b'x'; SIZE]).send();
    let mut peer = upstream.accept();
    let request = peer.request();
    peer.finish(call);
    assert_eq!(request.bytes().filter(|byte| *byte == b'x').count(), SIZE);
}

#[test]
fn calls_can_be_awaited_and_listened_to_on_the_loop() {
    let group = group(1);
    let server = tidegate_http::serve(&group, "127.0.0.1:0", |_, response| response.body("hi"));
    let server = server.wait().unwrap();
    let client = Client::builder(&group).build();
    let url = format!("http://{}/", server.local_addr());
    let log = Log::new();
    let (own, again) = (log.clone(), client.clone());
    let text = block_on("two calls", async move {
        let first = client.get(&url).send().await.unwrap();
        let first = first.collect(10).await.unwrap();
        // A call on the loop itself.
        let next = again.clone();
        let (url, done) = (url.clone(), own.clone());
        let started = group.submit(move || {
            next.get(&url)
                .send()
                .finally(move |outcome| done.push(outcome.is_success()));
        });
        started.unwrap().await.unwrap();
        first
    });
    assert_eq!(text, "hi");
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
}

#[test]
fn mistakes_are_errors_before_anything_is_sent() {
    let client = client();
    let get = |url: &str| client.get(url);
    let table = [
        (get("nonsense").send(), "scheme"),
        (get("http:///path").send(), "no host"),
        (get("http://u:secret@host/").send(), "user name"),
        (get("https://host/").send(), "https"),
        (get("http://host/").field("bad name", "x").send(), "token"),
        (
            get("http://host/").field("x", "a\r\nb").send(),
            "control byte",
        ),
        (
            get("http://host/").field("Content-Length", "5").send(),
            "framing",
        ),
        (
            get("http://host/").field("Connection", "close").send(),
            "`Connection`",
        ),
        (
            get("http://host/").field("Upgrade", "x").send(),
            "`Upgrade`",
        ),
        (
            client.request(Method::Connect, "http://host/").send(),
            "Client::tunnel",
        ),
        (
            client.request(Method::Other("A B"), "http://host/").send(),
            "token",
        ),
    ];
    for (call, what) in table {
        let why = error(call);
        let text = why.to_string();
        assert!(text.contains(what) && !text.contains("secret"), "{text}");
        assert!(
            why.is_bad_request() && !why.was_sent() && !why.is_safe_to_retry(),
            "{text}"
        );
        assert_eq!(why.phase(), Phase::Request);
    }
}

#[cfg(unix)]
#[test]
fn a_client_of_a_unix_socket_sends_its_requests_there() {
    use std::os::unix::net::UnixListener;
    let path = std::env::temp_dir().join(format!("tidegate-client-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let client = builder().unix_socket(&path).build();
    let call = client.get("http://service/path").send();
    let (mut peer, _) = listener.accept().unwrap();
    let wanted = "GET /path HTTP/1.1\r\nHost: service\r\n\r\n";
    let mut got = vec![0; wanted.len()];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), wanted);
    peer.write_all(OK.as_bytes()).unwrap();
    assert_eq!(text(call), "ok");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_share_of_reused_connections_is_a_metric() {
    let (upstream, client) = (Upstream::new(), client());
    let mut peer = None;
    for _ in 0..3 {
        let call = client.get(upstream.url("/")).send();
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.serve(call);
    }
    assert_eq!(Counts::of(&client), (2.0, 1.0));
}
