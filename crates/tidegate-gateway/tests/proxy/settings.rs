//! The settings that operators change: each one is obeyed by requests, or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::isolate::PropertySource as _;
use tidegate_testkit::{Gate, has, lacks};

use crate::operation::{World, operated};
use crate::*;

const FAILS: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// A gateway with one route to one server.
struct One {
    back: Upstream,
    world: World,
}

impl One {
    fn new(settings: &str) -> Self {
        let (back, world) = World::of(settings);
        Self { back, world }
    }

    /// Sets a key of the route, and returns the response.
    fn put(&self, key: &str, value: &str) -> Message {
        let line = format!("PUT /api/settings/route.shop.{key}");
        self.world.change(&line, value)
    }

    fn set(&self, key: &str, value: &str) {
        let done = self.put(key, value);
        assert_eq!(done.status(), "200", "{done:?}");
    }

    fn remove(&self, key: &str) {
        let line = format!("DELETE /api/settings/route.shop.{key}");
        let done = self.world.change(&line, "");
        assert_eq!(done.status(), "200", "{done:?}");
    }

    /// Asserts that a value is refused for this reason, and changes nothing.
    fn is_not_set(&self, key: &str, value: &str, why: &str) {
        let before = self.shown();
        let refused = self.put(key, value);
        assert_eq!(refused.status(), "422", "{key}: {refused:?}");
        assert!(refused.body.contains(why), "{key}: {}", refused.body);
        assert_eq!(self.shown(), before);
    }

    fn shown(&self) -> String {
        self.world.get("/api/settings?key=shop").body
    }

    fn order(&self, order: &str) -> Message {
        let line = format!("POST /api/breakers/shop/{order}");
        self.world.change(&line, "")
    }

    /// Reloads the route with these settings, and returns the response.
    fn reload(&self, settings: &str) -> String {
        let text = operated(&route(&[&self.back], settings));
        self.world.write(&text);
        let done = self.world.change("POST /api/reload", "");
        assert_eq!(done.status(), "200", "{done:?}");
        done.body
    }

    /// Begins a request that the server has read.
    fn hold(&self, request: &str) -> (Peer, Peer) {
        let client = self.world.send(request);
        let mut server = tidegate_testkit::until_some("the request is admitted", || {
            let mut byte = [0];
            client.0.set_nonblocking(true);
            let ended = client.0.peek(&mut byte);
            client.0.set_nonblocking(false);
            assert!(ended.is_err(), "it is refused");
            self.back.try_accept()
        });
        server.message();
        (client, server)
    }

    /// Asserts that a request ends after this time, and not much earlier.
    fn ends_after(&self, request: &str, millis: u64) {
        let (mut client, server) = self.hold(request);
        self.world
            .clock
            .advance(Duration::from_millis(millis - 150));
        assert!(self.goes_on(), "{request} has ended before {millis} ms");
        self.world.clock.advance(Duration::from_millis(400));
        client.failure("timeout shop");
        drop(server);
        self.world.wait_idle();
    }

    /// Returns `true` if a request is in flight, after all that was due has happened.
    fn goes_on(&self) -> bool {
        // The loop responds after it has run its timers.
        let mut probe = self.world.send(&GET.replace("/a", "/-"));
        assert_eq!(probe.message().status(), "204");
        self.world.active() > 0
    }

    /// Makes so many requests fail and others succeed, and closes the bucket of the breaker.
    fn judge(&self, failures: usize, successes: usize) {
        for round in 0..failures + successes {
            let (mut client, mut server) = self.hold(GET);
            server.write(if round < failures { FAILS } else { OK_CLOSE });
            client.message();
            self.world.wait_idle();
        }
        self.world.clock.advance(Duration::from_secs(1));
    }

    fn is_refused(&self, reason: &str) -> bool {
        let mut client = self.world.send(GET);
        let reason = format!("{reason} shop");
        client.message().field("tidegate-refused") == Some(&*reason)
    }
}

/// Settings of the route, and another one that responds at once.
fn with_probe(settings: &str) -> String {
    format!("{settings}\n[route.probe]\npath = \"/-\"\nrespond = 204")
}

#[test]
fn requests_obey_the_timeout_that_is_set() {
    let attempts = "retry = { times = 1, attempt_timeout = \"2s\", budget = 0 }";
    for (settings, key, before) in [
        ("", "timeout", 5000),
        (attempts, "retry.attempt_timeout", 2000),
    ] {
        for request in [GET, POST] {
            let one = One::new(&with_probe(&format!("timeout = \"5s\"\n{settings}")));
            one.ends_after(request, before);
            one.set(key, "\"500ms\"");
            one.ends_after(request, 500);
            let value = format!("shop.{key}\",\"value\":\"\\\"500ms\\\"\",\"origin\":\"operator\"");
            has(one.shown(), [&value]);
            one.remove(key);
            one.ends_after(request, before);
        }
    }
}

#[test]
fn a_timeout_that_is_switched_off_is_off_and_comes_back() {
    let one = One::new(&with_probe("timeout = \"5s\""));
    one.set("timeout", "false");
    let (mut client, mut server) = one.hold(GET);
    one.world.clock.advance(Duration::from_secs(60));
    assert!(one.goes_on());
    server.write(OK_CLOSE);
    assert_eq!(client.message().body, "ok");
    one.remove("timeout");
    one.ends_after(GET, 5000);
    let without = One::new(&with_probe("timeout = false"));
    without.set("timeout", "\"500ms\"");
    without.ends_after(GET, 500);
}

#[test]
fn tunnels_and_fallbacks_have_limits_of_their_own() {
    let upgrade = GET.replace("\r\n\r\n", "\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    let other = Upstream::new();
    let at = other.address();
    let one = One::new(&with_probe(&format!(
        "timeout = \"5s\"\ntunnel = {{ protocols = \"x\" }}\nlimit = 1\n\
         fallback = {{ upstream = \"other\" }}\n[upstream.other]\nservers = \"{at}\"",
    )));
    one.set("tunnel.max", "1");
    one.set("fallback.limit", "1");
    let _tunnel = one.hold(&upgrade);
    one.world.refusal(&upgrade, "limit shop");
    let _held = one.hold(GET);
    let (_second, _fallback) = one.world.open(GET, &other);
    assert!(one.is_refused("limit"), "the fallback has no place either");
}

/// How requests show that a setting is in force.
type Effect = fn(&One);

/// The value of a setting, and its effect.
const EFFECTS: [(&str, &str, Effect); 6] = [
    ("limit.max", "1", |one| {
        let _held = one.hold(GET);
        assert!(one.is_refused("limit"));
    }),
    ("breaker.volume", "2", |one| {
        one.judge(2, 0);
        assert!(one.is_refused("breaker"));
    }),
    ("breaker.sleep", "\"60s\"", |one| {
        one.judge(4, 0);
        one.world.clock.advance(Duration::from_secs(30));
        assert!(one.is_refused("breaker"));
    }),
    ("breaker.error_rate", "90", |one| {
        one.judge(3, 1);
        drop(one.hold(GET));
    }),
    ("queue.max", "1", |one| {
        let _all: Vec<_> = (0..5).map(|_| one.hold(GET)).collect();
        let _waits = one.world.send(GET);
        one.world.until_one_waits();
        assert!(one.is_refused("limit"));
    }),
    ("retry.times", "1", |one| {
        // A server that closes the connection before it responds.
        let (mut client, server) = one.hold(GET);
        drop(server);
        let mut again = one.back.accept();
        again.message();
        again.write(OK_CLOSE);
        assert_eq!(client.message().body, "ok");
    }),
];

const SETTINGS: &str = "timeout = \"100s\"\nlimit = 5\n\
     breaker = { error_rate = 50, volume = 4, sleep = \"10s\", window = \"20s\" }";

#[test]
fn requests_obey_what_is_set() {
    for (key, value, effect) in EFFECTS {
        let one = One::new(&with_probe(SETTINGS));
        one.set(key, value);
        effect(&one);
    }
}

#[test]
fn what_is_wrong_or_has_no_effect_is_refused_with_the_reason() {
    let one = One::new("limit = 5\n[route.fixed]\npath = \"/-\"\nrespond = 204");
    for (key, value, why) in [
        ("limit.max", "many", "operator:1:"),
        ("limit.max", "0", "is not a positive whole number"),
        (
            "limit.max",
            "\"${TOKEN}\"",
            "the variable `TOKEN` is not set",
        ),
        ("limit.min", "2", "the limit of the route is fixed"),
        ("limit.colour", "2", "only `timeout`, the keys of `limit`"),
        ("path", "\"/b\"", "only `timeout`, the keys of `limit`"),
        (
            "fallback.limit",
            "2",
            "the fallback of the route has no upstream",
        ),
        ("breaker.window", "\"1ms\"", "route.shop.breaker.window"),
    ] {
        one.is_not_set(key, value, why);
    }
    for (path, why) in [
        ("route.none.limit.max", "there is no such route"),
        ("route.fixed.limit.max", "the route has no upstream"),
        ("upstream.back.idle", "only `timeout`, the keys of `limit`"),
        (
            "hystrix.command.shop.circuitBreaker.enabled",
            "only `timeout`",
        ),
    ] {
        let line = |method: &str| format!("{method} /api/settings/{path}");
        let refused = one.world.change(&line("PUT"), "2");
        assert_eq!(refused.status(), "422", "{path}");
        assert!(refused.body.contains(why), "{path}: {}", refused.body);
        assert_eq!(one.world.change(&line("DELETE"), "").status(), "404");
    }
    assert!(one.world.parts.reports.events.latest().is_empty());
    let adaptive = One::new("limit = { kind = \"adaptive\", min = 2, initial = 5, max = 50 }");
    adaptive.is_not_set("limit.max", "1", "are not in order");
    let _both = [adaptive.hold(GET), adaptive.hold(GET)];
}

/// A reload may take the effect of a setting away, and give it back.
#[test]
fn a_setting_that_a_reload_leaves_without_effect_says_so() {
    let adaptive = "limit = { kind = \"adaptive\", min = 2, initial = 5, max = 50 }";
    let one = One::new(adaptive);
    one.set("limit.min", "3");
    lacks(one.shown(), ["effect\":\""]);
    let notes = one.reload("limit = 10");
    let why = "limit.min = 3 has no effect: the limit of the route is fixed";
    has(&notes, [why]);
    let why = "\"without_effect\":\"the limit of the route is fixed";
    has(one.shown(), [why]);
    let notes = one.reload(adaptive);
    lacks(&notes, ["has no effect"]);
    lacks(one.shown(), ["effect\":\""]);
}

/// A value that does not fit to the new file is named as the cause.
#[test]
fn a_reload_that_fails_because_of_a_setting_names_it() {
    let one = One::new("retry = 1");
    one.set("retry.attempt_timeout", "\"10s\"");
    let text = operated(&route(&[&one.back], "retry = 1\ntimeout = \"10s\""));
    one.world.write(&text);
    let why = "operators have set `route.shop.retry.attempt_timeout`, which is the cause";
    has(one.world.refuses_to_reload(), [why]);
    one.remove("retry.attempt_timeout");
    assert_eq!(one.world.change("POST /api/reload", "").status(), "200");
}

#[test]
fn a_setting_survives_a_reload_and_goes_with_its_route() {
    let one = One::new("limit = 5");
    one.set("limit.max", "1");
    one.reload("limit = 6");
    let held = one.hold(GET);
    assert!(one.is_refused("limit"));
    drop(held);
    one.world.wait_idle();
    let reload = |text: &str| {
        one.world.reload("SIGHUP", &operated(text));
    };
    let own = route(&[&one.back], "limit = 2");
    reload(&own.replace("route.shop", "route.cart"));
    let changes = one.world.parts.reports.events.latest();
    let removed = "route.shop.limit.max removed: its route is gone";
    assert!(changes.iter().any(|change| change.what == removed));
    // A route with its name begins anew.
    reload(&own);
    let _both = [one.hold(GET), one.hold(GET)];
}

/// Without a breaker, nothing is forced closed: the order is refused, and an order before it stays.
#[test]
fn a_route_without_a_breaker_is_not_forced_closed() {
    let one = One::new("");
    let refused = one.order("close");
    assert_eq!(refused.status(), "422", "{refused:?}");
    has(&refused.body, ["has no breaker"]);
    assert_eq!(one.order("open").status(), "200");
    assert_eq!(one.order("close").status(), "422");
    assert!(one.is_refused("breaker"), "it is forced open still");
    assert_eq!(one.order("auto").status(), "200");
    // Once there is a breaker, it can be forced.
    one.set("breaker.volume", "5");
    assert_eq!(one.order("close").status(), "200");
}

#[test]
fn an_order_for_a_breaker_goes_with_its_route() {
    let one = One::new("tunnel = {}");
    let name = |key: &str| format!("hystrix.command.{key}.circuitBreaker.forceOpen");
    for key in ["shop", "shop:tunnel"] {
        let line = format!("POST /api/breakers/{key}/open");
        assert_eq!(one.world.change(&line, "").status(), "200", "{key}");
    }
    let reload = |text: &str| {
        one.world.reload("SIGHUP", &operated(text));
        one.world.parts.properties.names()
    };
    // The tunnel goes, then the route.
    let plain = route(&[&one.back], "");
    assert_eq!(reload(&plain), [name("shop")]);
    assert!(reload(&plain.replace("route.shop", "route.cart")).is_empty());
    let changes = one.world.parts.reports.events.latest();
    let removed = format!("{} removed: its route is gone", name("shop"));
    assert!(changes.iter().any(|change| change.what == removed));
    assert!(reload(&plain).is_empty());
    drop(one.hold(GET));
}

#[test]
fn during_a_reload_nothing_is_set() {
    let (begun, go_on) = (Gate::new(), Gate::new());
    let waits = Arc::new(AtomicBool::new(false));
    let before = {
        let (begun, go_on, waits) = (begun.clone(), go_on.clone(), Arc::clone(&waits));
        move || {
            if waits.swap(false, Ordering::SeqCst) {
                begun.open();
                go_on.wait();
            }
        }
    };
    let back = Upstream::new();
    let world = World::with_reader(&route(&[&back], ""), before);
    let one = One { back, world };
    std::thread::scope(|scope| {
        waits.store(true, Ordering::SeqCst);
        let reload = scope.spawn(|| one.world.operation.reload("test"));
        begun.wait();
        let busy = one.put("limit.max", "3");
        assert_eq!(busy.status(), "409");
        has(&busy.body, ["a reload is in progress"]);
        go_on.open();
        reload.join().unwrap().unwrap();
    });
    one.set("limit.max", "3");
}
