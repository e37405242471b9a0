//! The access log of a running gateway.

use tidegate_testkit::{Folder, begins, has, lacks};

use crate::operation::World;
use crate::tunnels::{ACCEPT, ASK};
use crate::*;

/// Returns a value of a line.
pub(crate) fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let text = rest.strip_prefix('"');
    let end = text.map_or(rest.find([',', '}']), |text| text.find('"'))?;
    Some(&text.unwrap_or(rest)[..end])
}

/// Asserts that a line has these values, such as `status=200 route=shop`.
#[track_caller]
pub(crate) fn shows(line: &str, values: impl AsRef<str>) {
    for expected in values.as_ref().split(' ') {
        let (name, expected) = expected.split_once('=').unwrap();
        assert_eq!(value(line, name), Some(expected), "{name} of {line}");
    }
}

#[test]
fn a_line_has_the_times_the_server_and_the_outcome() {
    let (back, world) = World::of("");
    let mut client = world.send(
        "POST /a?token=marker HTTP/1.1\r\nHost: Shop.example:80\r\nX-Request-Id: 7\r\nContent-Length: 3\r\n\r\nabc",
    );
    let mut server = back.accept_asked();
    world.clock.advance(Duration::from_millis(40));
    server.answer(&mut client);
    let line = world.line(1);
    shows(
        &line,
        format!(
            "client=127.0.0.1 method=POST host=Shop.example path=/a status=200 route=shop upstream=back server={} attempts=1 waiting_ms=0.000 running_ms=40.000 total_ms=40.000 received=3 sent=2 outcome=success",
            back.address()
        ),
    );
    lacks(&line, ["marker"]);
    assert_eq!((value(&line, "reason"), value(&line, "cut")), (None, None));
}

#[test]
fn a_response_without_content_has_sent_nothing() {
    let (back, world) = World::of("");
    let (mut client, mut server) = world.reach(GET, &back);
    // At once, and in pieces.
    let head = "HTTP/1.1 205 Reset Content\r\nContent-Length: 3\r\n\r\n";
    server.serve(&format!("{head}abc"));
    assert_eq!(client.message().field("content-length"), Some("0"));
    client.write(GET);
    server.serve(head);
    assert_eq!(client.message().field("content-length"), Some("0"));
    server.write("abc");
    // Nothing of it is between the responses.
    client.ask(&mut server);
    for (line, status, sent) in [(1, "205", "0"), (2, "205", "0"), (3, "200", "2")] {
        shows(&world.line(line), format!("status={status} sent={sent}"));
    }
}

#[test]
fn a_request_that_waits_says_how_long() {
    let (back, world) = World::of("limit = 1\nqueue = { max = 1, wait = \"1s\" }");
    let (mut first, mut server) = world.open(GET, &back);
    let mut second = world.send(GET);
    world.until_one_waits();
    world.clock.advance(Duration::from_millis(30));
    server.answer(&mut first);
    server.message();
    world.clock.advance(Duration::from_millis(5));
    server.answer(&mut second);
    shows(
        &world.line(2),
        "waiting_ms=30.000 running_ms=5.000 total_ms=35.000",
    );
}

#[test]
fn a_refusal_and_a_failure_say_why_with_the_word_of_the_client() {
    let (back, world) = World::of("limit = 1\ntimeout = \"2s\"");
    let (mut first, _server) = world.open(GET, &back);
    world.refusal(GET, "limit shop");
    world.clock.advance(Duration::from_secs(3));
    first.failure("timeout shop");
    let rows = [
        "status=503 outcome=refused reason=limit attempts=0",
        "status=504 outcome=failed reason=timeout attempts=1",
    ];
    for (line, values) in world.lines(2).iter().zip(rows) {
        shows(line, values);
    }
    let metrics = world.get("/metrics").body;
    for reason in ["limit", "timeout"] {
        let line = format!("tidegate_route_problems_total{{route=\"shop\",reason=\"{reason}\"}} 1");
        has(&metrics, [&line]);
    }
    world.operation.reload("test").unwrap();
    let metrics = world.get("/metrics").body;
    assert_eq!(metrics.matches("tidegate_route_problems_total{").count(), 2);
}

#[test]
fn a_response_that_is_cut_is_logged_as_such() {
    let (back, world) = World::of("timeout = \"2s\"");
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let begin = || {
        let (mut client, mut server) = world.reach(GET, &back);
        server.serve(half);
        client.head();
        assert_eq!(client.bytes(4), "half");
        (client, server)
    };
    // The server breaks off.
    let (mut client, server) = begin();
    drop(server);
    assert_eq!(client.rest(), "");
    // The time is over.
    let (mut client, _server) = begin();
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(client.rest(), "");
    // The client leaves.
    let (client, _other) = begin();
    drop(client);
    let reasons = ["closed", "timeout", "client_left"];
    for (line, reason) in world.lines(3).iter().zip(reasons) {
        shows(
            line,
            format!("status=200 sent=4 outcome=failed reason={reason} cut=true"),
        );
    }
}

#[test]
fn further_attempts_and_fallbacks_are_in_the_line() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let settings = "retry = { times = 1, budget = 1 }\nfallback = { status = 200, body = \"[]\" }";
    let world = World::with_route(&[&one, &two], settings);
    let mut client = world.send(GET);
    one.accept().message();
    two.accept().message();
    assert_eq!(client.message().body, "[]");
    shows(
        &world.line(1),
        format!(
            "status=200 attempts=2 server={} outcome=failed reason=closed fallback=success",
            two.address()
        ),
    );
}

#[test]
fn a_response_that_breaks_off_before_its_turn_is_cut_as_the_log_says() {
    let (back, world) = World::of("");
    let mut client = world.send(&format!("{GET}{}", GET.replace("/a", "/b")));
    let mut servers = [back.accept(), back.accept()].map(|mut server| {
        let is_first = server.message().line().starts_with("GET /a ");
        (is_first, server)
    });
    servers.sort_by_key(|(is_first, _)| !is_first);
    let [(_, mut first), (_, mut second)] = servers;
    second.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    drop(second);
    let line = world.line(1);
    shows(&line, "path=/b status=200 reason=closed cut=true");
    first.answer(&mut client);
    let head = client.head();
    begins(&head, "HTTP/1.1 200 ");
    assert_eq!(field(&head, "x-request-id"), value(&line, "id"));
    assert_eq!(client.rest(), "half");
}

#[test]
fn the_response_of_a_fallback_has_the_reason_that_its_client_got() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let text = with_other(&back, &other, "fallback = { upstream = \"other\" }");
    let world = World::new(&text);
    let mut client = world.send(GET);
    back.accept().message();
    let mut spare = other.accept();
    spare.serve(OK);
    client.failure("closed shop");
    shows(
        &world.line(1),
        format!(
            "status=200 upstream=other server={} outcome=failed reason=closed fallback=success",
            other.address()
        ),
    );
    // Whole or in pieces.
    client.write(GET);
    back.accept().message();
    spare.serve("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
    client.head();
    assert_eq!(client.bytes(2), "ha");
    spare.sends("lf", &mut client);
    shows(&world.line(2), "outcome=failed reason=closed");
    let metrics = world.get("/metrics").body;
    let line = "tidegate_route_problems_total{route=\"shop\",reason=\"closed\"} 2";
    has(&metrics, [line]);
}

#[test]
fn a_client_that_leaves_before_the_response_has_no_status() {
    let (back, world) = World::of("");
    let (client, _server) = world.open(GET, &back);
    drop(client);
    let line = world.line(1);
    shows(&line, "status=0 outcome=failed reason=client_left");
    assert_eq!(value(&line, "cut"), None);
}

#[test]
fn responses_of_the_gateway_itself_are_logged() {
    let world = World::new(
        "[route.fixed]\npath = \"/fixed\"\nrespond = 203\n\
         [route.old]\npath = \"/old\"\nredirect = \"/new\"\n\
         [route.small]\npath = \"/small\"\nrespond = 200\nbody = \"1B\"\n",
    );
    let rows = [
        ("GET /fixed", "203", Some("fixed"), "success", None),
        ("GET /old", "308", Some("old"), "success", None),
        ("GET /none", "404", None, "refused", Some("no_route")),
        ("POST /small", "413", Some("small"), "refused", Some("body")),
    ];
    for (count, (asked, status, route, outcome, reason)) in rows.into_iter().enumerate() {
        let fields = match status {
            "413" => "Content-Length: 2\r\nExpect: 100-continue\r\n",
            _ => "",
        };
        let request = format!("{asked} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(world.send(&request).message().status(), status, "{asked}");
        let line = world.line(count + 1);
        shows(
            &line,
            format!("status={status} outcome={outcome} client=127.0.0.1"),
        );
        let found = (value(&line, "route"), value(&line, "reason"));
        assert_eq!(found, (route, reason), "{asked}");
    }
}

#[test]
fn the_path_is_that_of_the_client_also_if_the_route_changes_it() {
    let settings = "path = \"/a\"\nrewrite = { path = \"/inside\", host = \"inside.example\" }";
    let (back, world) = World::of(settings);
    let mut client = world.send(GET);
    assert_eq!(back.accept().serve(OK).line(), "GET /inside HTTP/1.1");
    client.message();
    shows(&world.line(1), "path=/a host=shop.example");
}

#[test]
fn what_the_server_of_http_refuses_is_logged() {
    let world = World::new("[route.all]\nrespond = 200\n");
    let long = "x".repeat(9000);
    let rows = [
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), "400"),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "414"),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
                "a: b\r\n".repeat(101)
            ),
            "431",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(),
            "501",
        ),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), "505"),
    ];
    for (count, (request, status)) in rows.iter().enumerate() {
        assert_eq!(world.send(request).message().status(), *status);
        let line = world.line(count + 1);
        shows(&line, format!("status={status} outcome=refused path="));
        shows(&line, "client=127.0.0.1 attempts=0");
        assert!(value(&line, "reason").is_some(), "{line}");
    }
    // A head that does not come.
    let mut late = world.send("GET / HT");
    tidegate_testkit::until("the head is late", || {
        world.clock.advance(Duration::from_secs(11));
        world.parts.reports.log.as_ref().unwrap().written() > rows.len() as u64
    });
    assert_eq!(late.message().status(), "408");
    shows(&world.line(rows.len() + 1), "status=408");
}

#[test]
fn a_body_that_is_too_large_or_too_late_is_logged_with_its_status() {
    let back = Upstream::new();
    let limited = format!(
        "[listen.small]\nat = \"127.0.0.1:0\"\nlimits = {{ body = \"3B\" }}\n{}",
        route(&[&back], "timeout = \"10m\"")
    );
    let world = World::new(&limited);
    // A length above the limit of the listener.
    let mut client = world.connect("small");
    client.write("POST /declared HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.message().status(), "413");
    shows(&world.line(1), "status=413 path=/declared outcome=refused");
    // One that is not declared, and one that does not come.
    let mut client = world.connect("small");
    client.write("POST /sent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let _first = back.accept();
    client.write("4\r\nabcd\r\n0\r\n\r\n");
    assert_eq!(client.message().status(), "413");
    shows(&world.line(2), "status=413 path=/sent outcome=refused");
    let (mut client, mut second) = world.begin(
        "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\na",
        &back,
    );
    assert_eq!(second.bytes(1), "a");
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(client.message().status(), "408");
    shows(
        &world.line(3),
        format!("status=408 path=/late server={}", back.address()),
    );
}

#[test]
fn files_are_logged_with_their_status_and_length() {
    let root = Folder::new("logged");
    std::fs::write(root.join("a.txt"), "content").unwrap();
    let world = World::new(&format!(
        "[route.assets]\npath = \"/assets/*\"\nfiles = {{ root = {root:?} }}\n"
    ));
    let rows = [
        ("GET", "a.txt", "200", "7"),
        ("HEAD", "a.txt", "200", "0"),
        ("GET", "b.txt", "404", "10"),
        ("POST", "a.txt", "405", "18"),
    ];
    for (count, (method, name, status, sent)) in rows.iter().enumerate() {
        let request = format!("{method} /assets/{name}?q=marker HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = world.send(&request).head();
        begins(&head, format!("HTTP/1.1 {status} "));
        let line = world.line(count + 1);
        let path = format!("/assets/{name}");
        shows(&line, format!("method={method} path={path} route=assets"));
        shows(
            &line,
            format!("status={status} sent={sent} outcome=success"),
        );
        shows(&line, "client=127.0.0.1 attempts=0");
        lacks(&line, ["marker"]);
    }
}

#[test]
fn a_tunnel_has_one_line_when_it_has_ended() {
    let settings = "tunnel = { connect = true, idle = \"1h\", protocols = \"x\" }\nmethod = [\"GET\", \"CONNECT\"]";
    let (back, world) = World::of(settings);
    let upgrade = "GET /live?q=marker HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                   Upgrade: x\r\n\r\n";
    let accept = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let connect = "CONNECT db:1 HTTP/1.1\r\nHost: db:1\r\n\r\n";
    for (count, (request, status)) in [(upgrade, "101"), (connect, "200")].iter().enumerate() {
        let (mut client, mut server) = world.reach(request, &back);
        if *status == "101" {
            server.serve(accept);
        }
        assert!(client.head().starts_with(&format!("HTTP/1.1 {status} ")));
        client.sends("ping", &mut server);
        server.sends("pong!", &mut client);
        // A request that ends meanwhile has the next line.
        let mut other = world.send(GET);
        back.accept().serve(OK_CLOSE);
        other.message();
        shows(&world.line(2 * count + 1), "path=/a");
        world.clock.advance(Duration::from_secs(7));
        drop(server);
        assert_eq!(client.rest(), "");
        // The client could still send.
        drop(client);
        let line = &world.line(2 * count + 2);
        shows(line, format!("status={status} received=4 sent=5"));
        shows(
            line,
            "total_ms=7000.000 running_ms=7000.000 route=shop outcome=success",
        );
        shows(
            line,
            format!("upstream=back server={} attempts=1", back.address()),
        );
        lacks(line, ["marker"]);
    }
    let (address, _held) = (back.address(), back.stop());
    assert_eq!(world.send(connect).message().status(), "502");
    shows(
        &world.line(5),
        format!("server={address} attempts=1 reason=connect"),
    );
}

#[test]
fn a_body_that_is_malformed_is_logged_with_its_status_although_the_client_leaves() {
    let (back, world) = World::of("");
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for _ in 0..20 {
        let (mut client, mut server) = world.begin(&format!("{head}2\r\nhi\r\n"), &back);
        assert_eq!(server.bytes(7), "2\r\nhi\r\n");
        client.write("no length\r\n");
        drop(client);
        assert_eq!(server.rest(), "");
    }
    for line in world.lines(20) {
        shows(&line, "status=400 outcome=refused");
    }
}

#[test]
fn a_tunnel_that_is_cut_at_the_end_says_so() {
    let back = Upstream::new();
    let text = route(&[&back], "tunnel = {}") + "[drain]\nannounce = \"0s\"\ndeadline = \"5s\"\n";
    let world = World::new(&text);
    let open = || {
        let (mut client, mut server) = world.open(ASK, &back);
        server.write(ACCEPT);
        client.head();
        (client, server)
    };
    let (_held, ended) = (open(), open());
    drop(ended);
    shows(&world.line(1), "status=101 outcome=success");
    let drained = world.operation.drain();
    world.clock.advance(Duration::from_secs(6));
    drained.wait().unwrap();
    shows(
        &world.line(2),
        "status=101 outcome=failed reason=closing cut=true",
    );
}
