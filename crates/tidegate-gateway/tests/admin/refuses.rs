//! What the listener refuses, and how it ends.

use std::io::{Read, Write};
use std::time::Duration;

use tidegate_gateway::config::{Address, Secret};

use tidegate_testkit::{begins, has, lacks};

use crate::{NETWORK, World, body, has_status, settings, status};

#[test]
fn a_change_needs_the_token_for_changes() {
    let mut settings = settings();
    settings.read_token = Some(Secret::Value("read".to_owned()));
    let world = World::with(&settings).unwrap();
    *world.gateway.limit.lock().unwrap() = 5;
    let rows = [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: full-token\r\n", 401),
        ("Authorization: Bearer read\r\n", 403),
        ("Authorization: Bearer full-token\r\n", 200),
    ];
    for line in [
        "POST /api/reload",
        "POST /api/breakers/cart/open",
        "POST /api/servers/shop/10.0.0.1:80/drain",
        "DELETE /api/settings/route.cart.limit.max",
    ] {
        for (fields, expected) in rows {
            let before = world.events.latest().len();
            let response = world.request(line, fields, "");
            assert_eq!(status(&response), expected, "{line} {fields}");
            let is_challenged = response.contains("WWW-Authenticate: Bearer\r\n");
            assert_eq!(is_challenged, expected == 401);
            let changes = world.events.latest().len() - before;
            assert_eq!(changes, usize::from(expected == 200));
        }
    }
    // The last one had the token.
    assert!(world.gateway.server.is_draining());
}

#[test]
fn a_request_with_two_tokens_is_refused() {
    let world = World::with(&settings()).unwrap();
    let right = "Authorization: Bearer full-token\r\n";
    let wrong = "authorization: Bearer wrong\r\n";
    for other in [right, wrong, "Authorization:\r\n"] {
        for fields in [format!("{right}{other}"), format!("{other}{right}")] {
            let before = world.events.latest().len();
            for line in ["POST /api/reload", "GET /api/snapshot", "GET /live"] {
                let response = world.request(line, &fields, "");
                assert_eq!(status(&response), 400, "{line} {fields}");
            }
            assert_eq!(world.events.latest().len(), before);
        }
    }
}

#[test]
fn without_a_token_nothing_can_be_changed() {
    let mut settings = settings();
    settings.token = None;
    let world = World::with(&settings).unwrap();
    assert_eq!(status(&world.get("/api/snapshot")), 200);
    let refused = world.change("POST /api/reload", "");
    assert_eq!(status(&refused), 401, "the token is none of ours");
    let refused = world.request("POST /api/reload", "", "");
    assert_eq!(status(&refused), 403);
    has(&refused, ["set listen.admin.token"]);
}

#[test]
fn on_another_address_only_health_is_free() {
    let mut settings = settings();
    settings.at = Address::Tcp {
        host: "0.0.0.0".to_owned(),
        port: 0,
    };
    let world = World::with(&settings).unwrap();
    let paths = [
        "/metrics",
        "/hystrix.stream",
        "/api/snapshot",
        "/api/settings",
        "/api/events",
        "/api/dump",
        "/page/events",
        "/page/route?key=cart",
        "/page/save",
    ];
    for path in paths {
        assert_eq!(status(&world.get(path)), 401, "{path}");
    }
    // The file of the page asks for the token. It is the same for everyone.
    let page = world.get("/");
    assert_eq!(status(&page), 200);
    assert_eq!(body(&page), body(&World::new().get("/")));
    lacks(&page, ["cart"]);
    assert_eq!(status(&world.get("/live")), 200);
    assert_eq!(status(&world.get("/ready")), 200);
    assert_eq!(status(&world.change("GET /api/snapshot", "")), 200);
    settings.token = None;
    let error = World::with(&settings).err().unwrap().to_string();
    has(&error, ["there is no token"]);
}

#[test]
fn a_page_of_another_site_reads_and_changes_nothing() {
    let world = World::new();
    let rebound = "Host: evil.example\r\n";
    has_status(&world.request("GET /api/snapshot", rebound, ""), 421);
    has_status(&world.request("GET /hystrix.stream", rebound, ""), 421);
    let with_token = "Host: evil.example\r\nAuthorization: Bearer full-token\r\n";
    has_status(&world.request("POST /api/reload", with_token, ""), 421);
    assert_eq!(status(&world.request("GET /live", rebound, "")), 200);
    let asked = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    let preflight = world.request("OPTIONS /api/reload", asked, "");
    assert_eq!(status(&preflight), 405);
    let read = world.request("GET /api/snapshot", "Origin: http://evil.example\r\n", "");
    for response in [preflight, read] {
        lacks(response.to_ascii_lowercase(), ["access-control"]);
    }
}

#[test]
fn what_does_not_exist_or_is_too_large_is_refused() {
    let world = World::new();
    for path in ["//", "/api", "/api/none", "/live/"] {
        assert_eq!(status(&world.get(path)), 404, "{path}");
    }
    let other = world.request("DELETE /metrics", "", "");
    assert_eq!(status(&other), 405);
    has(&other, ["Allow: GET, HEAD\r\n"]);
    let path = "PUT /api/settings/route.cart.limit.max";
    assert_eq!(status(&world.change(path, &"x".repeat(5000))), 413);
    let token = "Authorization: Bearer full-token\r\n";
    assert_eq!(status(&world.request(path, token, "maybe")), 422);
}

#[test]
fn a_port_in_use_and_a_missing_token_file_are_errors() {
    let world = World::new();
    let mut other = settings();
    other.at = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: world.admin.local_addr().port(),
    };
    let error = World::with(&other).err().unwrap().to_string();
    begins(&error, "listen.admin.at: cannot listen on 127.0.0.1:");
    assert_eq!(error.matches("cannot listen").count(), 1, "{error}");
    let mut missing = settings();
    missing.token = Some(Secret::File("/no/such/token".into()));
    let error = World::with(&missing).err().unwrap().to_string();
    begins(&error, "listen.admin.token: the file cannot be read");
}

#[test]
fn an_end_closes_the_listener() {
    let world = World::new();
    let address = world.admin.local_addr();
    world.admin.close(Duration::from_secs(1)).wait().unwrap();
    assert!(NETWORK.connect(address).is_err());
}

#[test]
fn if_the_threads_are_busy_the_status_is_503() {
    let world = World::new();
    let held = world.gateway.dumps.lock().unwrap();
    let ask = "GET /api/dump HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut clients: Vec<_> = (0..64)
        .map(|_| {
            let mut client = world.connect();
            client.write_all(ask.as_bytes()).unwrap();
            client
        })
        .collect();
    // No dump can end: the first response is a refusal.
    tidegate_testkit::until("a request is refused", || {
        clients.iter().any(|client| {
            client.set_nonblocking(true);
            let has_response = client.peek(&mut [0]).is_ok();
            client.set_nonblocking(false);
            has_response
        })
    });
    // What does not block is not affected.
    assert_eq!(status(&world.get("/ready")), 200);
    drop(held);
    let (mut done, mut refused) = (0, 0);
    for client in &mut clients {
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        match status(&response) {
            200 => done += 1,
            503 => {
                refused += 1;
                has(&response, ["Retry-After: 1\r\n", "\"error\":"]);
            }
            other => panic!("{other}: {response}"),
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    assert_eq!(status(&world.get("/api/dump")), 200);
}
