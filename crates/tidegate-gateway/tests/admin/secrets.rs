//! No output of the listener contains a secret.

use tidegate_gateway::config::Secret;

use crate::{World, settings};

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
        ("GET /api/snapshot?token=secret-marker", ""),
        ("GET /none?token=secret-marker", &full),
        ("POST /api/reload", &field("secret-marker-wrong")),
        ("POST /api/reload", &field("secret-marker-read")),
    ];
    for (line, fields) in requests {
        let response = world.request(line, fields, "");
        assert!(!response.contains(marker), "{line}\n{response}");
    }
    assert!(!format!("{:?} {:?}", world.admin, world.events).contains(marker));
    assert_eq!(world.events.latest().len(), 2);
}
