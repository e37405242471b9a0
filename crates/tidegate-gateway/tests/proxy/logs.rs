//! The access log of a running gateway.

use crate::operation::World;
use crate::*;

/// Returns a value of a line.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let text = rest.strip_prefix('"');
    let end = text.map_or(rest.find([',', '}']), |text| text.find('"'))?;
    Some(&text.unwrap_or(rest)[..end])
}

fn has(line: &str, values: &[(&str, &str)]) {
    for (name, expected) in values {
        assert_eq!(value(line, name), Some(*expected), "{name} of {line}");
    }
}

#[test]
fn a_line_has_the_times_the_server_and_the_outcome() {
    let back = Upstream::new();
    let world = World::with_route(&[&back], "");
    let mut client = world.send(
        "POST /a?token=marker HTTP/1.1\r\nHost: Shop.example:80\r\nX-Request-Id: 7\r\nContent-Length: 3\r\n\r\nabc",
    );
    let mut server = back.accept();
    server.message();
    world.clock.advance(Duration::from_millis(40));
    server.write(OK);
    assert_eq!(client.message().body, "ok");
    let lines = world.lines(1);
    has(
        &lines[0],
        &[
            ("client", "127.0.0.1"),
            ("method", "POST"),
            ("host", "Shop.example"),
            ("path", "/a"),
            ("status", "200"),
            ("route", "shop"),
            ("upstream", "back"),
            ("server", &back.address()),
            ("attempts", "1"),
            ("waiting_ms", "0.000"),
            ("running_ms", "40.000"),
            ("total_ms", "40.000"),
            ("received", "3"),
            ("sent", "2"),
            ("outcome", "success"),
        ],
    );
    assert!(!lines[0].contains("marker"), "{}", lines[0]);
    assert_eq!(value(&lines[0], "reason"), None);
    assert_eq!(value(&lines[0], "cut"), None);
}

#[test]
fn a_request_that_waits_says_how_long() {
    let back = Upstream::new();
    let world = World::with_route(&[&back], "limit = 1\nqueue = { max = 1, wait = \"1s\" }");
    let mut first = world.send(GET);
    let mut server = back.accept();
    server.message();
    let mut second = world.send(GET);
    tidegate_testkit::until("the second one waits", || {
        world.parts.isolation.snapshots()[0].waiting == 1
    });
    world.clock.advance(Duration::from_millis(30));
    server.write(OK);
    assert_eq!(first.message().body, "ok");
    server.message();
    world.clock.advance(Duration::from_millis(5));
    server.write(OK);
    assert_eq!(second.message().body, "ok");
    let lines = world.lines(2);
    has(
        &lines[1],
        &[
            ("waiting_ms", "30.000"),
            ("running_ms", "5.000"),
            ("total_ms", "35.000"),
        ],
    );
}

#[test]
fn a_refusal_and_a_failure_say_why_with_the_word_of_the_client() {
    let back = Upstream::new();
    let world = World::with_route(&[&back], "limit = 1\ntimeout = \"2s\"");
    let mut first = world.send(GET);
    let mut server = back.accept();
    server.message();
    let refused = world.send(GET).message();
    assert_eq!(refused.field("tidegate-refused"), Some("limit shop"));
    world.clock.advance(Duration::from_secs(3));
    let failed = first.message();
    assert_eq!(failed.field("tidegate-failed"), Some("timeout shop"));
    let lines = world.lines(2);
    has(
        &lines[0],
        &[
            ("status", "503"),
            ("outcome", "refused"),
            ("reason", "limit"),
            ("attempts", "0"),
        ],
    );
    has(
        &lines[1],
        &[
            ("status", "504"),
            ("outcome", "failed"),
            ("reason", "timeout"),
            ("attempts", "1"),
        ],
    );
    let metrics = world.get("/metrics").body;
    for reason in ["limit", "timeout"] {
        let line = format!("tidegate_route_problems_total{{route=\"shop\",reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
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
    let back = Upstream::new();
    let world = World::with_route(&[&back], "timeout = \"2s\"");
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    // The server breaks off.
    let mut client = world.send(GET);
    let mut server = back.accept();
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    drop(server);
    assert_eq!(client.rest(), "");
    // The time is over.
    let mut client = world.send(GET);
    let mut server = back.accept();
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(client.rest(), "");
    // The client leaves.
    let mut client = world.send(GET);
    let mut server = back.accept();
    server.serve(half);
    client.head();
    assert_eq!(client.bytes(4), "half");
    drop(client);
    let lines = world.lines(3);
    for (line, reason) in lines.iter().zip(["closed", "timeout", "client_left"]) {
        has(
            line,
            &[
                ("status", "200"),
                ("sent", "4"),
                ("outcome", "failed"),
                ("reason", reason),
                ("cut", "true"),
            ],
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
    has(
        &lines[0],
        &[
            ("status", "200"),
            ("attempts", "2"),
            ("server", &two.address()),
            ("outcome", "failed"),
            ("reason", "closed"),
            ("fallback", "true"),
        ],
    );
}

#[test]
fn a_client_that_leaves_before_the_response_has_no_status() {
    let back = Upstream::new();
    let world = World::with_route(&[&back], "");
    let client = world.send(GET);
    let mut server = back.accept();
    server.message();
    drop(client);
    let lines = world.lines(1);
    has(
        &lines[0],
        &[
            ("status", "0"),
            ("outcome", "failed"),
            ("reason", "client_left"),
        ],
    );
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
        has(
            line,
            &[
                ("status", status),
                ("outcome", outcome),
                ("client", "127.0.0.1"),
            ],
        );
        assert_eq!(
            (value(line, "route"), value(line, "reason")),
            (route, reason)
        );
    }
}

#[test]
fn the_path_is_that_of_the_client_also_if_the_route_changes_it() {
    let back = Upstream::new();
    let settings = "path = \"/a\"\nrewrite = { path = \"/inside\", host = \"inside.example\" }";
    let world = World::with_route(&[&back], settings);
    let mut client = world.send(GET);
    assert_eq!(back.accept().serve(OK).line(), "GET /inside HTTP/1.1");
    client.message();
    has(
        &world.lines(1)[0],
        &[("path", "/a"), ("host", "shop.example")],
    );
}
