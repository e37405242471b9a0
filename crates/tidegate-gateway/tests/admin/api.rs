//! Health, metrics, state and changes.

use std::sync::atomic::Ordering;

use tidegate::isolate::BreakerState;

use tidegate_testkit::has;

use crate::{NOW, PATH, World, body, has_status, status};

#[test]
fn health_says_whether_the_gateway_lives_and_takes_requests() {
    let world = World::new();
    assert_eq!(body(&world.get("/live")), "live\n");
    assert_eq!(body(&world.get("/ready")), "ready\n");
    world.gateway.is_ready.store(false, Ordering::Relaxed);
    assert_eq!(status(&world.get("/ready")), 503);
    assert_eq!(status(&world.get("/live")), 200);
    let head = world.request("HEAD /ready", "", "");
    assert_eq!((status(&head), body(&head)), (503, ""));
}

#[test]
fn metrics_have_the_format_that_the_reader_knows() {
    let world = World::new();
    let plain = world.get("/metrics");
    has(
        &plain,
        [
            "Content-Type: text/plain; version=0.0.4",
            "command=\"cart\"",
        ],
    );
    let fields = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = world.request("GET /metrics", fields, "");
    has(
        &open,
        ["Content-Type: application/openmetrics-text", "# EOF"],
    );
}

#[test]
fn a_snapshot_shows_routes_and_servers() {
    let world = World::new();
    world.gateway.server.set_up(false);
    let entry = world.cart.admit().unwrap();
    let snapshot = world.get("/api/snapshot");
    drop(entry);
    let parts = [
        "Content-Type: application/json",
        "Cache-Control: no-store",
        "{\"version\":1,",
        "\"ready\":true,",
        "\"routes\":[{\"key\":\"cart\",\"group\":\"shop\",\"upstream\":null,\"values\":[",
        "{\"name\":\"in_flight\",\"title\":\"In flight\"",
        "\"upstreams\":[{\"name\":\"shop\",\"servers\":[{\"address\":\"10.0.0.1:80\",\"weight\":2,\
         \"in_flight\":0,\"share\":null,\"up\":false,\"draining\":false,\"found\":true}]}]",
    ];
    has(&snapshot, parts);
}

#[test]
fn a_setting_is_set_shown_and_removed() {
    let world = World::new();
    let line = |method: &str| format!("{method} /api/settings/{PATH}");
    let set = world.change(&line("PUT"), " 3\n");
    let done = format!("{{\"done\":\"{PATH} = 3\"}}");
    assert_eq!((status(&set), body(&set)), (200, &*done));
    let shown = format!(
        "[{{\"path\":\"{PATH}\",\"value\":\"3\",\"origin\":\"operator\",\"without_effect\":null}}]"
    );
    assert_eq!(body(&world.get("/api/settings")), shown);
    assert_eq!(body(&world.get("/api/settings?key=other")), "[]");
    let refused = world.change(&line("PUT"), "many");
    has_status(&refused, 422);
    has(
        &refused,
        ["{\"error\":\"`route.cart.limit.max` is wrong\"}"],
    );
    let refused = world.change("PUT /api/settings/busy", "3");
    has_status(&refused, 409);
    has(&refused, ["a reload is in progress"]);
    assert_eq!(status(&world.change(&line("DELETE"), "")), 200);
    let unset = world.change(&line("DELETE"), "");
    assert_eq!(status(&unset), 404);
    has(&unset, ["it is not set"]);
    let changes = world.events.latest();
    let what: Vec<&str> = changes.iter().map(|change| &*change.what).collect();
    assert_eq!(what, [format!("{PATH} removed"), format!("{PATH} = 3")]);
}

#[test]
fn a_breaker_is_forced_and_reset() {
    let world = World::new();
    let admits = || world.cart.admit().is_ok();
    let order =
        |order: &str| status(&world.change(&format!("POST /api/breakers/cart/{order}"), ""));
    let orders = [
        ("open", false),
        ("close", true),
        ("open", false),
        ("auto", true),
    ];
    for (what, passes) in orders {
        assert_eq!((order(what), admits()), (200, passes), "{what}");
    }
    assert_eq!(order("reset"), 200);
    assert_eq!(world.cart.snapshot().breaker, BreakerState::Closed);
    has_status(&world.change("POST /api/breakers/none/open", ""), 404);
    assert_eq!(world.events.latest().len(), 5);
}

#[test]
fn a_server_is_drained_and_resumed() {
    let world = World::new();
    let order = |path: &str| status(&world.change(&format!("POST /api/servers/{path}"), ""));
    assert_eq!(order("shop/10.0.0.1:80/drain"), 200);
    assert!(world.gateway.server.is_draining());
    has(world.get("/api/snapshot"), ["\"draining\":true"]);
    assert_eq!(order("shop/10.0.0.1:80/resume"), 200);
    assert!(!world.gateway.server.is_draining());
    assert_eq!(order("shop/10.0.0.2:80/drain"), 404);
}

#[test]
fn a_reload_says_what_is_wrong_or_what_comes_later() {
    let world = World::new();
    *world.gateway.reloads.lock().unwrap() = Ok(vec!["listen.http: it changes later".to_owned()]);
    let reload = world.change("POST /api/reload", "");
    let expected = "{\"done\":\"reload\",\"notes\":[\"listen.http: it changes later\"]}";
    assert_eq!((status(&reload), body(&reload)), (200, expected));
    *world.gateway.reloads.lock().unwrap() = Err("t.toml:1:1: the key is unknown".to_owned());
    let reload = world.change("POST /api/reload", "");
    let expected = "{\"error\":\"t.toml:1:1: the key is unknown\"}";
    assert_eq!((status(&reload), body(&reload)), (422, expected));
    // What failed has changed nothing.
    assert_eq!(world.events.latest().len(), 1);
}

#[test]
fn each_change_is_an_event_with_time_and_origin() {
    let world = World::new();
    world.change("POST /api/breakers/cart/open", "");
    world.change("POST /api/reload", "");
    let events = world.get("/api/events");
    let time = NOW.as_millis();
    let parts = [
        &format!("{{\"time_ms\":{time},\"origin\":\"admin 127.0.0.1:"),
        "\"what\":\"reload\"",
        "\"what\":\"breaker of cart: forced open\"",
    ];
    has(&events, parts);
    let latest = world.events.latest();
    assert_eq!((latest.len(), latest[0].what.as_str()), (2, "reload"));
}

#[test]
fn a_dump_shows_what_the_gateway_holds() {
    let world = World::new();
    let entry = world.cart.admit().unwrap();
    let dump = world.get("/api/dump");
    drop(entry);
    has(&dump, ["Content-Type: text/plain", "cart"]);
}
