//! The words of the access log that tell similar ends of requests from each other.

use tidegate_testkit::{has, lacks};

use crate::logs::{shows, value};
use crate::operation::World;
use crate::*;

/// Its upstream responds with a failure, fails, and admits no more.
#[test]
fn a_fallback_that_fails_or_is_refused_is_logged_as_such() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = "limit = 1\nfallback = { upstream = \"other\", limit = 1 }";
    let world = World::new(&with_other(&back, &other, settings));
    let bad = "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for bytes in [bad, "garbage\r\n\r\n"] {
        let mut client = world.send(GET);
        back.accept().message();
        other.accept().serve(bytes);
        client.message();
    }
    let _held = [world.open(GET, &back), world.open(GET, &other)];
    world.refusal(GET, "limit shop");
    let rows = [
        ("500", "failed", "closed", "failed"),
        ("502", "failed", "bad_response", "failed"),
        ("503", "refused", "limit", "refused"),
    ];
    let lines = world.lines(rows.len());
    for (line, (status, outcome, reason, fallback)) in lines.iter().zip(rows) {
        shows(line, format!("status={status} outcome={outcome}"));
        shows(line, format!("reason={reason} fallback={fallback}"));
    }
    let snapshots = world.parts.isolation.snapshots();
    let route = snapshots.iter().find(|one| one.key.as_str() == "shop");
    let totals = &route.unwrap().totals;
    let counts = [Event::FallbackFailure, Event::FallbackRejection].map(|event| totals[event]);
    assert_eq!(counts, [2, 1]);
}

#[test]
fn a_client_that_takes_nothing_is_a_slow_reader() {
    let (back, world) = World::of("timeout = false");
    let (_client, mut server) = world.reach(GET, &back);
    server.serve("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    let log = world.parts.reports.log.as_ref().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while server.0.write_all(&[b'x'; 1 << 16]).is_ok() {});
        tidegate_testkit::until("the client is cut", || {
            // The systems may still take bytes into their memory, which is progress.
            world.clock.advance(Duration::from_secs(10));
            log.written() > 0
        });
    });
    let line = world.line(1);
    shows(
        &line,
        "status=200 outcome=failed reason=slow_reader cut=true",
    );
    assert_ne!(value(&line, "sent"), Some("0"));
    let metrics = world.get("/metrics").body;
    let line = "tidegate_route_problems_total{route=\"shop\",reason=\"slow_reader\"} 1";
    has(&metrics, [line]);
}

#[test]
fn a_head_that_is_refused_has_its_method() {
    let world = World::new("[route.all]\nrespond = 200\n");
    let rows = [
        ("GET /a\"b HTTP/1.1\r\nHost: a\r\n\r\n", "GET"),
        ("PURGE /a<marker HTTP/1.1\r\nHost: a\r\n\r\n", "PURGE"),
        ("marker\r\n\r\n", ""),
    ];
    for (count, (request, method)) in rows.into_iter().enumerate() {
        assert_eq!(world.send(request).message().status(), "400");
        let line = world.line(count + 1);
        shows(&line, format!("status=400 method={method} path="));
        lacks(&line, ["marker"]);
    }
}
