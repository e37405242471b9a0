//! No output of the listener contains a secret.

use tidegate_gateway::config::Secret;

use crate::streams::{Stream, millis};
use crate::{World, settings, status};

/// Plants a marker in each token, in fields and in queries, and searches all outputs.
#[test]
fn no_response_contains_a_token() {
    let marker = "secret-marker";
    let mut settings = settings();
    settings.token = Some(Secret::Value(marker.to_owned()));
    settings.read_token = Some(Secret::Value(format!("{marker}-read")));
    let world = World::with(&settings).unwrap();
    let field = |token: &str| format!("Authorization: Bearer {token}\r\nCookie: a={marker}\r\n");
    let full = field(marker);
    let requests = [
        ("GET /metrics", full.as_str()),
        ("GET /api/snapshot", &full),
        ("GET /api/settings", &full),
        ("GET /api/dump", &full),
        ("POST /api/reload", &full),
        ("POST /api/breakers/cart/open", &full),
        ("POST /api/breakers/none/open", &full),
        ("GET /api/events", &full),
        ("GET /", &full),
        ("GET /page/route?key=cart", &full),
        ("GET /page/route?key=secret-marker", &full),
        ("GET /page/save", &full),
        ("GET /api/snapshot?token=secret-marker", ""),
        ("GET /none?token=secret-marker", &full),
        ("POST /api/reload", &field("secret-marker-wrong")),
        ("POST /api/reload", &field("secret-marker-read")),
    ];
    for (line, fields) in requests {
        let response = world.request(line, fields, "");
        assert!(!response.contains(marker), "{line}\n{response}");
    }
    // Each is open, and has told of the changes above.
    let streams = ["page/events", "hystrix.stream"];
    for path in streams {
        let mut stream = Stream::open_with(&world, &format!("/{path}?token={marker}"), &full);
        assert_eq!(status(&stream.head), 200, "{path}");
        let mut told = stream.head.clone() + &stream.next();
        world.clock.advance(millis(500));
        told += &stream.next();
        assert!(told.contains("cart"), "{path}\n{told}");
        assert!(!told.contains(marker), "{path}\n{told}");
    }
    assert!(!format!("{:?} {:?}", world.admin, world.events).contains(marker));
    assert_eq!(world.events.latest().len(), 2);
}
