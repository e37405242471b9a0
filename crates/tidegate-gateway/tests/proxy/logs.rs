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
    let lines = world.lines(1);
    shows(
        &lines[0],
        format!(
            "client=127.0.0.1 method=POST host=Shop.example path=/a status=200 route=shop upstream=back server={} attempts=1 waiting_ms=0.000 running_ms=40.000 total_ms=40.000 received=3 sent=2 outcome=success",
            back.address()
        ),
    );
    lacks(&lines[0], ["marker"]);
    assert_eq!(value(&lines[0], "reason"), None);
    assert_eq!(value(&lines[0], "cut"), None);
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
    let lines = world.lines(3);
    for (line, status, sent) in [(0, "205", "0"), (1, "205", "0"), (2, "200", "2")] {
        shows(&lines[line], format!("status={status} sent={sent}"));
    }
}

#[test]
fn a_request_that_waits_says_how_long() {
    let (back, world) = World::of("limit = 1\nqueue = { max = 1, wait = \"1s\" }");
    let (mut first, mut server) = world.open(GET, &back);
    let mut second = world.send(GET);
    tidegate_testkit::until("the second one waits", || {
        world.parts.isolation.snapshots()[0].waiting == 1
    });
    world.clock.advance(Duration::from_millis(30));
    server.answer(&mut first);
    server.message();
    world.clock.advance(Duration::from_millis(5));
    server.answer(&mut second);
    let lines = world.lines(2);
    shows(
        &lines[1],
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
    let lines = world.lines(2);
    shows(
        &lines[0],
        "status=503 outcome=refused reason=limit attempts=0",
    );
    shows(
        &lines[1],
        "status=504 outcome=failed reason=timeout attempts=1",
    );
    let metrics = world.get("/metrics").body;
    for reason in ["limit", "timeout"] {
        let line = format!("tidegate_route_problems_total{{route=\"shop\",reason=\"{reason}\"}} 1");
        has(&metrics, [&line]);
    }
    world.operation.reload("test").unwrap();
    assert_eq!(
        world
            .get("/metrics")
            .body
            .matches("tidegate_route_problems_total{")
            .count(),
        2
    );
}

#[test]
fn a_response_that_is_cut_is_logged_as_such() {
    let (back, world) = World::of("timeout = \"2s\"");
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    // The server breaks off.
    let (mut client, mut server) = world.reach(GET, &back);
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    drop(server);
    assert_eq!(client.rest(), "");
    // The time is over.
    let (mut client, mut server) = world.reach(GET, &back);
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(client.rest(), "");
    // The client leaves.
    let (mut client, mut server) = world.reach(GET, &back);
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    drop(client);
    let lines = world.lines(3);
    for (line, reason) in lines.iter().zip(["closed", "timeout", "client_left"]) {
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
    let lines = world.lines(1);
    shows(
        &lines[0],
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
    let lines = world.lines(1);
    shows(&lines[0], "path=/b status=200 reason=closed cut=true");
    first.answer(&mut client);
    let head = client.head();
    begins(&head, "HTTP/1.1 200 ");
    assert_eq!(field(&head, "x-request-id"), value(&lines[0], "id"));
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
    let lines = world.lines(1);
    shows(
        &lines[0],
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
    spare.write("lf");
    assert_eq!(client.bytes(2), "lf");
    shows(&world.lines(2)[1], "outcome=failed reason=closed");
    let metrics = world.get("/metrics").body;
    let line = "tidegate_route_problems_total{route=\"shop\",reason=\"closed\"} 2";
    has(&metrics, [line]);
}

#[test]
fn a_client_that_leaves_before_the_response_has_no_status() {
    let (back, world) = World::of("");
    let (client, _server) = world.open(GET, &back);
    drop(client);
    let lines = world.lines(1);
    shows(&lines[0], "status=0 outcome=failed reason=client_left");
    assert_eq!(value(&lines[0], "cut"), None);
}

#[test]
fn responses_of_the_gateway_itself_are_logged() {
    let world = World::new(
        "[route.fixed]\npath = \"/fixed\"\nrespond = 203\n\
         [route.old]\npath = \"/old\"\nredirect = \"/new\"\n\
         [route.small]\npath = \"/small\"\nrespond = 200\nbody = \"1B\"\n",
    );
    let ask = |line: &str, fields: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        world.send(&request).message()
    };
    assert_eq!(ask("GET /fixed", "").status(), "203");
    assert_eq!(ask("GET /old", "").status(), "308");
    assert_eq!(ask("GET /none", "").status(), "404");
    assert_eq!(
        ask(
            "POST /small",
            "Content-Length: 2\r\nExpect: 100-continue\r\n"
        )
        .status(),
        "413"
    );
    let lines = world.lines(4);
    let rows = [
        ("203", Some("fixed"), "success", None),
        ("308", Some("old"), "success", None),
        ("404", None, "refused", Some("no_route")),
        ("413", Some("small"), "refused", Some("body")),
    ];
    for (line, (status, route, outcome, reason)) in lines.iter().zip(rows) {
        shows(
            line,
            format!("status={status} outcome={outcome} client=127.0.0.1"),
        );
        assert_eq!(
            (value(line, "route"), value(line, "reason")),
            (route, reason)
        );
    }
}

#[test]
fn the_path_is_that_of_the_client_also_if_the_route_changes_it() {
    let settings = "path = \"/a\"\nrewrite = { path = \"/inside\", host = \"inside.example\" }";
    let (back, world) = World::of(settings);
    let mut client = world.send(GET);
    assert_eq!(back.accept().serve(OK).line(), "GET /inside HTTP/1.1");
    client.message();
    shows(&world.lines(1)[0], "path=/a host=shop.example");
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
        let lines = world.lines(count + 1);
        shows(
            &lines[count],
            format!("status={status} outcome=refused path="),
        );
        shows(&lines[count], "client=127.0.0.1 attempts=0");
        assert!(value(&lines[count], "reason").is_some(), "{}", lines[count]);
    }
    // A head that does not come.
    let mut late = world.send("GET / HT");
    tidegate_testkit::until("the head is late", || {
        world.clock.advance(Duration::from_secs(11));
        world.parts.reports.log.as_ref().unwrap().written() > rows.len() as u64
    });
    assert_eq!(late.message().status(), "408");
    shows(&world.lines(rows.len() + 1)[rows.len()], "status=408");
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
    shows(
        &world.lines(1)[0],
        "status=413 path=/declared outcome=refused",
    );
    // One that is not declared, and one that does not come.
    let mut client = world.connect("small");
    client.write("POST /sent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let _first = back.accept();
    client.write("4\r\nabcd\r\n0\r\n\r\n");
    assert_eq!(client.message().status(), "413");
    shows(&world.lines(2)[1], "status=413 path=/sent outcome=refused");
    let (mut client, mut second) = world.begin(
        "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\na",
        &back,
    );
    assert_eq!(second.bytes(1), "a");
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(client.message().status(), "408");
    shows(
        &world.lines(3)[2],
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
        let line = world.lines(count + 1).swap_remove(count);
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
        client.write("ping");
        assert_eq!(server.bytes(4), "ping");
        server.write("pong!");
        assert_eq!(client.bytes(5), "pong!");
        // A request that ends meanwhile has the next line.
        let mut other = world.send(GET);
        back.accept().serve(OK_CLOSE);
        other.message();
        shows(&world.lines(2 * count + 1)[2 * count], "path=/a");
        world.clock.advance(Duration::from_secs(7));
        drop(server);
        assert_eq!(client.rest(), "");
        // The client could still send.
        drop(client);
        let lines = world.lines(2 * count + 2);
        let line = &lines[2 * count + 1];
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
    let lines = world.lines(5);
    shows(
        &lines[4],
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
    let lines = world.lines(1);
    shows(&lines[0], "status=101 outcome=success");
    let drained = world.operation.drain();
    world.clock.advance(Duration::from_secs(6));
    drained.wait().unwrap();
    let lines = world.lines(2);
    shows(
        &lines[1],
        "status=101 outcome=failed reason=closing cut=true",
    );
}
