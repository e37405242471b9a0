//! `https`, and other handlers in front of the server.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_http::client::Client as HttpClient;
use tidegate_http::{Files, HttpServer, HttpServerBuilder, Request, Response};
use tidegate_loop::Pinned;
use tidegate_net::handlers::{ProxiedPeer, ProxyProtocol};
use tidegate_net::tls::{TlsClient, TlsHandshake};
use tidegate_net::{Handler, NetGroup};
use tidegate_promise::Completion;
use tidegate_testkit::until;

use crate::authority::{Authority, Secure};
use crate::files::{TestDir, content};
use crate::{Client, dial, get, leaves};

const SECOND: Duration = Duration::from_secs(1);

/// Begins TLS with `a.test` on a connection.
fn secure(authority: &Authority, stream: TcpStream, alpn: &[&str]) -> Client<Secure> {
    Client::over(authority.secure(stream, alpn))
}

fn connect(authority: &Authority, address: SocketAddr) -> Client<Secure> {
    secure(authority, dial(address), &["http/1.1"])
}

fn group() -> NetGroup {
    tidegate_net::pinned("web", 1).unwrap()
}

/// Responds with the path, or with many bytes.
fn respond(request: Request<'_>, response: Response<'_>) {
    match request.path() {
        "/large" => response.body("x".repeat(10_000)),
        "/close" => response.field("Connection", "close").body("last"),
        path => response.body(path.to_owned()),
    }
}

fn serve(builder: HttpServerBuilder<Pinned>) -> HttpServer {
    builder.serve("127.0.0.1:0", respond).wait().unwrap()
}

#[test]
fn a_service_sees_the_name_and_the_protocol_that_the_client_asks_for() {
    let (group, authority) = (group(), Authority::new());
    let tls = authority.server("a.test");
    let (chain, key) = authority.identity("b.test");
    tls.set_name("b.test", chain.as_bytes(), key.as_bytes())
        .unwrap();
    let server = HttpServer::builder(&group)
        .tls(tls)
        .serve("127.0.0.1:0", |request, response| {
            let shown = request.channel().attribute::<TlsHandshake>().unwrap();
            let alpn = String::from_utf8(shown.alpn.unwrap().to_vec()).unwrap();
            response.body(format!("{} {alpn}", shown.server_name.unwrap()));
        })
        .wait()
        .unwrap();
    let address = server.local_addr();
    let client = HttpClient::builder(&group)
        .tls(TlsClient::trusting(authority.pem().as_bytes()).unwrap())
        .resolver(move |_, _| Completion::succeeded(vec![address]))
        .build();
    for name in ["a.test", "b.test", "a.test"] {
        let response = client
            .get(format!("https://{name}/"))
            .send()
            .wait()
            .unwrap();
        let body = response.collect(100).wait().unwrap();
        assert_eq!(body, format!("{name} http/1.1"));
    }
    client.get("https://c.test/").send().wait().unwrap_err();
    // The client may have tried again.
    until("the refused certificate is counted", || {
        server.metrics().failed_handshakes > 0
    });
    assert_eq!(server.metrics().server_errors, 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (group, authority) = (group(), Authority::new());
    let server = serve(HttpServer::builder(&group).tls(authority.server("a.test")));
    let mut client = connect(&authority, server.local_addr());
    for round in 0..3 {
        let requests: String = (0..50)
            .map(|n| get(&format!("/{round}/{n}")) + &get("/large"))
            .collect();
        client.send(requests);
        for n in 0..50 {
            assert_eq!(client.response(), (200, format!("/{round}/{n}")));
            assert_eq!(client.response().1.len(), 10_000);
        }
    }
    server.drain(SECOND).wait().unwrap();
}

#[test]
fn clients_that_do_not_finish_the_handshake_are_counted_and_harm_no_other() {
    let (group, authority) = (group(), Authority::new());
    let server = serve(HttpServer::builder(&group).tls(authority.server("a.test")));
    let mut other = connect(&authority, server.local_addr());
    other.ask("/a", "/a");
    // Not TLS at all.
    let mut plain = dial(server.local_addr());
    plain.write_all(get("/").as_bytes()).unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).unwrap();
    assert!(!alert.starts_with(b"HTTP"), "{alert:?}");
    // Another protocol only.
    let mut h2 = secure(&authority, dial(server.local_addr()), &["h2"]);
    h2.stream.write_all(get("/").as_bytes()).unwrap_err();
    until("both are counted", || {
        server.metrics().failed_handshakes == 2
    });
    // A check of a balancer is no failure.
    drop(dial(server.local_addr()));
    until("it is closed", || {
        let metrics = server.metrics();
        metrics.connections == 1 && metrics.lost_connections == 1
    });
    let metrics = server.metrics();
    assert_eq!((metrics.failed_handshakes, metrics.server_errors), (2, 0));
    assert_eq!(metrics.requests, 1);
    other.ask("/b", "/b");
    // A client that names no protocol is served.
    let mut client = secure(&authority, dial(server.local_addr()), &[]);
    client.ask("/c", "/c");
}

#[test]
fn a_client_that_leaves_without_a_notice_is_lost() {
    let (group, authority) = (group(), Authority::new());
    let server = serve(HttpServer::builder(&group).tls(authority.server("a.test")));
    let mut client = connect(&authority, server.local_addr());
    client.ask("/a", "/a");
    client.stream.sock.shutdown(Shutdown::Write).unwrap();
    until("the connection ends", || server.metrics().connections == 0);
    let metrics = server.metrics();
    assert_eq!((metrics.lost_connections, metrics.server_errors), (1, 0));
}

#[test]
fn a_client_that_ends_its_half_with_a_notice_leaves_or_gets_its_responses() {
    let authority = Authority::new();
    leaves::check(
        |server| server.tls(authority.server("a.test")),
        |address| connect(&authority, address),
        |client| {
            let Client { stream, .. } = client;
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            stream.sock.shutdown(Shutdown::Write).unwrap();
        },
    );
}

#[test]
fn a_drain_ends_connections_with_a_notice() {
    let (group, authority) = (group(), Authority::new());
    let server = serve(HttpServer::builder(&group).tls(authority.server("a.test")));
    let mut idle = connect(&authority, server.local_addr());
    idle.ask("/a", "/a");
    let drained = server.drain(Duration::from_secs(3600));
    // An end without a `close_notify` would be an error.
    assert_eq!(idle.rest(), "");
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn a_client_of_http_1_0_does_not_take_a_part_for_the_whole() {
    let (group, authority) = (group(), Authority::new());
    let server = HttpServer::builder(&group)
        .tls(authority.server("a.test"))
        .serve("127.0.0.1:0", |_, response| {
            let mut stream = response.stream();
            stream.write("part");
            drop(stream);
        })
        .wait()
        .unwrap();
    let mut client = connect(&authority, server.local_addr());
    client.send("GET / HTTP/1.0\r\n\r\n");
    // With a `close_notify`, the part would be the whole.
    let why = client.stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_client_that_goes_on_sending_gets_the_last_response() {
    let (group, authority) = (group(), Authority::new());
    let server = serve(HttpServer::builder(&group).tls(authority.server("a.test")));
    let mut client = connect(&authority, server.local_addr());
    client.send(get("/close") + &get("/never").repeat(1000));
    assert_eq!(client.response(), (200, "last".to_owned()));
    assert_eq!(client.rest(), "");
    assert_eq!(server.metrics().requests, 1);
}

#[test]
fn files_and_ranges_are_encrypted() {
    let (group, authority, dir) = (group(), Authority::new(), TestDir::new("secure"));
    let files = Files::new(&dir.0).unwrap();
    let server = HttpServer::builder(&group)
        .tls(authority.server("a.test"))
        .serve_with("127.0.0.1:0", move || files.clone())
        .wait()
        .unwrap();
    let mut client = connect(&authority, server.local_addr());
    let range = "GET /large.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=16-31\r\n\r\n";
    client.send(get("/large.txt") + range + &get("/small.txt"));
    assert!(client.response() == (200, content()));
    assert_eq!(client.response(), (206, "0123456789abcdef".to_owned()));
    assert_eq!(client.response(), (200, "small".to_owned()));
    server.drain(SECOND).wait().unwrap();
}

#[test]
fn the_proxy_protocol_comes_before_tls() {
    let (group, authority) = (group(), Authority::new());
    let server = HttpServer::builder(&group)
        .front(|pipeline| pipeline.add_handler("proxy", Handler::inbound(ProxyProtocol::new())))
        .tls(authority.server("a.test"))
        .serve("127.0.0.1:0", |request, response| {
            let peer = request.channel().attribute::<ProxiedPeer>().unwrap();
            response.body(peer.addresses.unwrap().0.to_string());
        })
        .wait()
        .unwrap();
    let mut stream = dial(server.local_addr());
    let header = "PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n";
    stream.write_all(header.as_bytes()).unwrap();
    let mut client = secure(&authority, stream, &["http/1.1"]);
    client.ask("/", "192.0.2.1:4000");
    // Without a header nothing is looked at.
    let mut plain = dial(server.local_addr());
    plain.write_all(get("/").as_bytes()).unwrap();
    let mut rest = Vec::new();
    plain.read_to_end(&mut rest).unwrap();
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
    assert_eq!(server.metrics().failed_handshakes, 1);
}

#[test]
fn handlers_that_do_not_fit_are_an_error_when_the_server_is_bound() {
    let group = group();
    let twice = HttpServer::builder(&group)
        .front(|pipeline| pipeline.add_handler("http", Handler::inbound(ProxyProtocol::new())));
    let why = twice.serve("127.0.0.1:0", respond).wait().unwrap_err();
    assert!(why.to_string().contains("http"), "{why}");
}
