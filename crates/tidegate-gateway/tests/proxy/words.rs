//! The words of the access log that tell similar ends of requests from each other.

use crate::logs::has;
use crate::operation::World;
use crate::*;

/// Its upstream responds with a failure, fails, and admits no more.
#[test]
fn a_fallback_that_fails_or_is_refused_is_logged_as_such() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let text = route(
        &[&back],
        "limit = 1\nfallback = { upstream = \"other\", limit = 1 }",
    );
    let text = format!(
        "{text}[upstream.other]\nservers = \"{}\"\n",
        other.address()
    );
    let world = World::new(&text);
    let bad = "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for bytes in [bad, "garbage\r\n\r\n"] {
        let mut client = world.send(GET);
        back.accept().message();
        other.accept().serve(bytes);
        client.message();
    }
    let (_first, mut server) = (world.send(GET), back.accept());
    server.message();
    let (_second, mut spare) = (world.send(GET), other.accept());
    spare.message();
    let refused = world.send(GET).message();
    assert_eq!(refused.field("tidegate-refused"), Some("limit shop"));
    let rows = [
        ("500", "failed", "closed", "failed"),
        ("502", "failed", "bad_response", "failed"),
        ("503", "refused", "limit", "refused"),
    ];
    let lines = world.lines(rows.len());
    for (line, (status, outcome, reason, fallback)) in lines.iter().zip(rows) {
        has(line, &[("status", status), ("outcome", outcome)]);
        has(line, &[("reason", reason), ("fallback", fallback)]);
    }
    let snapshots = world.parts.isolation.snapshots();
    let route = snapshots.iter().find(|one| one.key.as_str() == "shop");
    let totals = &route.unwrap().totals;
    let counts = [Event::FallbackFailure, Event::FallbackRejection].map(|event| totals[event]);
    assert_eq!(counts, [2, 1]);
}
