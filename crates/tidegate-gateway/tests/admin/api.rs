//! Health, metrics, state and changes.

use std::sync::atomic::Ordering;

use tidegate::isolate::{BreakerState, PropertySource as _};

use crate::{NOW, World, assert_has, body, status};

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
    assert_has(
        &plain,
        &[
            "Content-Type: text/plain; version=0.0.4",
            "command=\"cart\"",
        ],
    );
    let fields = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = world.request("GET /metrics", fields, "");
    assert_has(
        &open,
        &["Content-Type: application/openmetrics-text", "# EOF"],
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
    assert_has(&snapshot, &parts);
}

#[test]
fn a_dynamic_property_changes_while_the_gateway_runs() {
    let world = World::new();
    let name = "hystrix.command.cart.execution.isolation.semaphore.maxConcurrentRequests";
    let path = format!("/api/properties/{name}");
    let set = world.change(&format!("PUT {path}"), "3");
    assert_eq!(
        (status(&set), body(&set)),
        (200, &*format!("{{\"done\":\"{name} = 3\"}}"))
    );
    assert_eq!(world.cart.config().permits.limit, 3);
    let settings = world.get("/api/settings");
    let value = format!("\"property\":\"{name}\",\"value\":\"3\",\"origin\":\"property {name}\"");
    assert_has(&settings, &["{\"command\":\"cart\"", &value]);
    // A wrong value or name changes nothing.
    for (path, value) in [
        (path.as_str(), "many"),
        ("/api/properties/hystrix.command.cart.colour", "1"),
    ] {
        let refused = world.change(&format!("PUT {path}"), value);
        assert_eq!(status(&refused), 422);
        assert_has(&refused, &["{\"error\":\""]);
    }
    assert_eq!(world.cart.config().permits.limit, 3);
    let removed = world.change(&format!("DELETE {path}"), "");
    assert_eq!(status(&removed), 200);
    assert_eq!(world.cart.config().permits.limit, 7);
}

#[test]
fn a_property_that_no_route_can_honour_is_refused_and_one_that_is_not_set_is_not_removed() {
    let world = World::new();
    for (name, value, why) in [
        (
            "command.cart.execution.isolation.strategy",
            "THREAD",
            "no threads",
        ),
        (
            "command.later.execution.isolation.strategy",
            "THREAD",
            "no threads",
        ),
        ("command.cart.fallback.enabled", "false", "in the file"),
        ("threadpool.cart.coreSize", "5", "no threads"),
    ] {
        let path = format!("/api/properties/hystrix.{name}");
        let refused = world.change(&format!("PUT {path}"), value);
        assert_eq!(status(&refused), 422, "{name}");
        assert_has(&refused, &["cannot be set: ", why]);
        let unset = world.change(&format!("DELETE {path}"), "");
        assert_eq!(status(&unset), 404, "{name}");
        assert_has(&unset, &["is not set"]);
    }
    assert_eq!(
        status(&world.change("DELETE /api/properties/nope", "")),
        404
    );
    assert_eq!(world.events.latest().len(), 0);
    assert!(world.cart.admit().is_ok());
}

/// A route may come with a later reload; the number of those that never come is bounded.
#[test]
fn properties_of_routes_that_do_not_exist_are_bounded() {
    let world = World::new();
    let name = |route: &str| format!("hystrix.command.{route}.circuitBreaker.enabled");
    let put = |route: &str, value: &str| {
        world.change(&format!("PUT /api/properties/{}", name(route)), value)
    };
    let first = put("later", "true");
    assert_eq!(status(&first), 200, "{first}");
    // A wrong value would keep a reload from adding the route.
    for (property, value) in [
        ("circuitBreaker.errorThresholdPercentage", "0"),
        ("circuitBreaker.forceOpen", "maybe"),
        ("execution.isolation.semaphore.maxConcurrentRequests", "0"),
        ("execution.isolation.semaphore.maxConcurrentRequests", "abc"),
        ("execution.isolation.thread.timeoutInMilliseconds", "-5"),
    ] {
        let name = format!("hystrix.command.later.{property}");
        let wrong = world.change(&format!("PUT /api/properties/{name}"), value);
        assert_eq!(status(&wrong), 422, "{property}: {wrong}");
        assert_has(&wrong, &[property]);
    }
    for number in 1..1024 {
        let name = name(&format!("r{number}"));
        world.gateway.properties.set(&name, "true").unwrap();
    }
    let refused = put("more", "true");
    assert_eq!(status(&refused), 409);
    assert_has(&refused, &["its route does not exist, and 1024 others"]);
    assert_eq!(world.gateway.properties.names().len(), 1024);
    // Those that are set can change, and those of routes that exist can be set.
    assert_eq!(status(&put("later", "false")), 200);
    assert_eq!(status(&put("default", "false")), 200);
    assert_eq!(status(&put("cart", "false")), 200);
    let removed = world.change(&format!("DELETE /api/properties/{}", name("r1")), "");
    assert_eq!(status(&removed), 200);
    assert_eq!(status(&put("more", "true")), 200);
    assert_eq!(status(&put("most", "true")), 409);
}

#[test]
fn a_breaker_is_forced_and_reset() {
    let world = World::new();
    let admits = || world.cart.admit().is_ok();
    let order =
        |order: &str| status(&world.change(&format!("POST /api/breakers/cart/{order}"), ""));
    assert_eq!(order("open"), 200);
    assert!(!admits());
    assert_eq!(order("close"), 200);
    assert!(admits());
    assert_eq!(order("open"), 200);
    assert!(!admits());
    assert_eq!(order("auto"), 200);
    assert!(admits());
    assert_eq!(order("reset"), 200);
    assert_eq!(world.cart.snapshot().breaker, BreakerState::Closed);
    assert_eq!(
        status(&world.change("POST /api/breakers/none/open", "")),
        404
    );
    assert_eq!(world.events.latest().len(), 5);
}

#[test]
fn a_server_is_drained_and_resumed() {
    let world = World::new();
    let order = |path: &str| status(&world.change(&format!("POST /api/servers/{path}"), ""));
    assert_eq!(order("shop/10.0.0.1:80/drain"), 200);
    assert!(world.gateway.server.is_draining());
    assert_has(&world.get("/api/snapshot"), &["\"draining\":true"]);
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
    assert_eq!(
        world.events.latest().len(),
        1,
        "what failed has changed nothing"
    );
}

#[test]
fn each_change_is_an_event_with_time_and_origin() {
    let world = World::new();
    world.change("POST /api/breakers/cart/open", "");
    world.change("POST /api/reload", "");
    let events = world.get("/api/events");
    let time = format!(
        "{{\"time_ms\":{},\"origin\":\"admin 127.0.0.1:",
        NOW.as_millis()
    );
    let parts = [
        time.as_str(),
        "\"what\":\"reload\"",
        "\"what\":\"breaker of cart: forced open\"",
    ];
    assert_has(&events, &parts);
    let latest = world.events.latest();
    assert_eq!((latest.len(), latest[0].what.as_str()), (2, "reload"));
}

#[test]
fn a_dump_shows_what_the_gateway_holds() {
    let world = World::new();
    let entry = world.cart.admit().unwrap();
    let dump = world.get("/api/dump");
    drop(entry);
    assert_has(&dump, &["Content-Type: text/plain", "cart"]);
}
