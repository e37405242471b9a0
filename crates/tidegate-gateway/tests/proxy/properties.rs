//! The properties that operators set: each one is obeyed by requests, or refused.

use tidegate::isolate::{BreakerState, PropertySource as _};

use crate::operation::World;
use crate::*;

const TIMEOUT: &str = "execution.isolation.thread.timeoutInMilliseconds";
const ENABLED: &str = "execution.timeout.enabled";
const LIMIT: &str = "execution.isolation.semaphore.maxConcurrentRequests";
const FAILS: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A gateway with one route to one server.
struct One {
    back: Upstream,
    world: World,
}

impl One {
    fn new(settings: &str) -> Self {
        let back = Upstream::new();
        let world = World::with_route(&[&back], settings);
        Self { back, world }
    }

    /// Sets a property of a command, and returns the response.
    fn put(&self, command: &str, property: &str, value: &str) -> Message {
        let path = format!("/api/properties/hystrix.command.{command}.{property}");
        self.world.change(&format!("PUT {path}"), value)
    }

    fn set(&self, property: &str, value: &str) {
        let done = self.put("shop", property, value);
        assert_eq!(done.status(), "200", "{done:?}");
    }

    /// Reloads the route with these settings, and returns the response.
    fn reload(&self, settings: &str) -> String {
        let text = crate::operation::operated(&route(&[&self.back], settings));
        self.world.files.write("/tidegate.toml", &text);
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
        let response = client.message();
        assert_eq!(response.field("tidegate-failed"), Some("timeout shop"));
        drop(server);
        self.wait_idle();
    }

    /// Returns `true` if a request is in flight, after all that was due has happened.
    fn goes_on(&self) -> bool {
        // The loop responds after it has run its timers.
        assert_eq!(
            self.world.send(&GET.replace("/a", "/-")).message().status(),
            "204"
        );
        self.active() > 0
    }

    /// Returns whether the breaker is forced open.
    fn is_forced_open(&self) -> String {
        let all = self.world.parts.isolation.settings();
        let own = all.iter().find(|one| one.command.as_str() == "shop");
        let forced = own.unwrap().get("circuitBreaker.forceOpen");
        forced.unwrap().value.clone()
    }

    fn active(&self) -> usize {
        let all = self.world.parts.isolation.snapshots();
        all.iter().map(|one| one.active).sum()
    }

    fn wait_idle(&self) {
        tidegate_testkit::until("no request is in flight", || self.active() == 0);
    }

    /// Makes so many requests fail and others succeed, and closes the bucket of the breaker.
    fn judge(&self, failures: usize, successes: usize) {
        for round in 0..failures + successes {
            let (mut client, mut server) = self.hold(GET);
            server.write(if round < failures { FAILS } else { OK_CLOSE });
            client.message();
            self.wait_idle();
        }
        self.world.clock.advance(Duration::from_secs(1));
    }

    fn breaker(&self) -> BreakerState {
        let all = self.world.parts.isolation.snapshots();
        let own = all.iter().find(|one| one.key.as_str() == "shop");
        own.unwrap().breaker
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

const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

#[test]
fn requests_obey_the_timeout_of_the_property_whatever_the_file_says() {
    let attempts = "retry = { times = 1, attempt_timeout = \"2s\", budget = 0 }";
    for (settings, request) in [("", GET), ("", POST), (attempts, GET), (attempts, POST)] {
        let one = One::new(&with_probe(&format!("timeout = \"5s\"\n{settings}")));
        one.ends_after(request, if settings.is_empty() { 5000 } else { 2000 });
        one.set(TIMEOUT, "500");
        one.ends_after(request, 500);
        let shown = one.world.get("/api/settings").body;
        let value =
            format!("hystrix.command.shop.{TIMEOUT}\",\"value\":\"500\",\"origin\":\"property");
        assert!(shown.contains(&value), "{shown}");
        // The time of the file for all attempts still holds.
        one.set(TIMEOUT, "20000");
        one.ends_after(request, if settings.is_empty() { 20_000 } else { 5000 });
        let timed_out = one.world.parts.isolation.snapshots()[0].totals[Event::Timeout];
        assert_eq!(timed_out, 3, "{settings} {request}");
    }
}

#[test]
fn a_timeout_that_a_property_switches_off_is_off_and_comes_back() {
    let one = One::new(&with_probe("timeout = \"5s\""));
    one.set(ENABLED, "false");
    let (mut client, mut server) = one.hold(GET);
    one.world.clock.advance(Duration::from_secs(60));
    assert!(one.goes_on());
    server.write(OK_CLOSE);
    assert_eq!(client.message().body, "ok");
    one.set(ENABLED, "true");
    one.ends_after(GET, 5000);
    // Neither is a length in force that has no timeout.
    let without = One::new(&with_probe("timeout = false"));
    let refused = without.put("shop", TIMEOUT, "500");
    assert_eq!(refused.status(), "422");
    assert!(refused.body.contains("no timeout"), "{}", refused.body);
    without.set(ENABLED, "true");
    without.set(TIMEOUT, "500");
    without.ends_after(GET, 500);
}

#[test]
fn upgrades_and_fallbacks_obey_the_timeouts_of_their_commands() {
    let upgrade = GET.replace("\r\n\r\n", "\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    let one = One::new(&with_probe(
        "timeout = \"5s\"\ntunnel = { protocols = \"x\" }",
    ));
    one.ends_after(&upgrade, 5000);
    assert_eq!(one.put("shop:tunnel", TIMEOUT, "500").status(), "200");
    one.ends_after(&upgrade, 500);
    one.ends_after(GET, 5000);

    let other = Upstream::new();
    let at = other.address();
    let one = One::new(&with_probe(&format!(
        "timeout = \"5s\"\nfallback = {{ upstream = \"other\", timeout = \"4s\" }}\n\
         [upstream.other]\nservers = \"{at}\"",
    )));
    for (name, value) in [(ENABLED, "true"), (TIMEOUT, "500")] {
        assert_eq!(one.put("shop:fallback", name, value).status(), "200");
    }
    one.set(TIMEOUT, "2000");
    let (mut client, _server) = one.hold(GET);
    one.world.clock.advance(Duration::from_millis(2200));
    let mut fallback = other.accept();
    fallback.message();
    one.world.clock.advance(Duration::from_millis(150));
    assert!(one.goes_on());
    one.world.clock.advance(Duration::from_millis(400));
    assert_eq!(
        client.message().field("tidegate-failed"),
        Some("timeout shop")
    );
}

/// How requests show that a property is in force.
type Effect = fn(&One);

/// The value of a property, and its effect.
const EFFECTS: [(&str, &str, Effect); 14] = [
    ("execution.isolation.strategy", "SEMAPHORE", |one| {
        // The only value that a route takes.
        drop(one.hold(GET));
    }),
    (TIMEOUT, "500", |one| one.ends_after(GET, 500)),
    (ENABLED, "false", |one| {
        let _held = one.hold(GET);
        one.world.clock.advance(Duration::from_secs(600));
        assert!(one.goes_on());
    }),
    (LIMIT, "1", |one| {
        let _held = one.hold(GET);
        assert!(one.is_refused("limit"));
    }),
    ("circuitBreaker.enabled", "false", |one| {
        one.judge(9, 0);
        drop(one.hold(GET));
    }),
    ("circuitBreaker.requestVolumeThreshold", "2", |one| {
        one.judge(2, 0);
        assert!(one.is_refused("breaker"));
    }),
    ("circuitBreaker.sleepWindowInMilliseconds", "60000", |one| {
        one.judge(4, 0);
        one.world.clock.advance(Duration::from_secs(30));
        assert!(one.is_refused("breaker"));
    }),
    ("circuitBreaker.errorThresholdPercentage", "90", |one| {
        one.judge(3, 1);
        drop(one.hold(GET));
    }),
    ("circuitBreaker.forceOpen", "true", |one| {
        assert!(one.is_refused("breaker"));
    }),
    ("circuitBreaker.forceClosed", "true", |one| {
        one.judge(9, 0);
        drop(one.hold(GET));
    }),
    ("circuitBreaker.probes.maxConcurrentRequests", "2", |one| {
        // As many as must succeed at most.
        one.set("circuitBreaker.probes.requiredSuccesses", "3");
        one.judge(4, 0);
        one.world.clock.advance(Duration::from_secs(11));
        let _both = [one.hold(GET), one.hold(GET)];
        assert!(one.is_refused("breaker"));
    }),
    ("circuitBreaker.probes.requiredSuccesses", "2", |one| {
        one.judge(4, 0);
        one.world.clock.advance(Duration::from_secs(11));
        one.judge(0, 1);
        let _held = one.hold(GET);
        assert!(one.is_refused("breaker"), "one success is not enough");
    }),
    (
        "circuitBreaker.probes.timeoutInMilliseconds",
        "2000",
        |one| {
            one.judge(4, 0);
            one.world.clock.advance(Duration::from_secs(11));
            let _held = one.hold(GET);
            one.world.clock.advance(Duration::from_secs(3));
            assert!(one.is_refused("breaker"));
            assert_eq!(one.breaker(), BreakerState::Open, "not half open any more");
        },
    ),
    ("circuitBreaker.ramp.timeInMilliseconds", "100000", |one| {
        one.judge(4, 0);
        one.world.clock.advance(Duration::from_secs(11));
        one.judge(0, 1);
        assert_ne!(
            one.breaker(),
            BreakerState::Closed,
            "only a share is admitted"
        );
    }),
];

const SETTINGS: &str = "timeout = \"100s\"\nlimit = 5\n\
     breaker = { error_rate = 50, volume = 4, sleep = \"10s\", window = \"20s\" }";

#[test]
fn each_property_is_obeyed_or_refused() {
    let one = One::new(&with_probe(SETTINGS));
    let settings = one.world.parts.isolation.settings();
    let own = settings.iter().find(|one| one.command.as_str() == "shop");
    let all = own.unwrap().values.iter();
    let names = all
        .filter(|value| value.property.is_some())
        .map(|value| value.name);
    for name in names {
        let effect = EFFECTS.iter().find(|(own, ..)| *own == name);
        match effect {
            Some((_, value, effect)) => {
                let one = One::new(&with_probe(SETTINGS));
                let refused = one.put("default", name, value);
                assert_eq!(refused.status(), "422", "{name}");
                one.set(name, value);
                effect(&one);
            }
            None => {
                let value = if name.ends_with("nabled") {
                    "false"
                } else {
                    "1"
                };
                let refused = one.put("shop", name, value);
                assert_eq!(refused.status(), "422", "{name}");
                assert!(refused.body.contains("cannot be set: "), "{}", refused.body);
            }
        }
    }
    for (name, ..) in EFFECTS {
        assert!(own.unwrap().get(name).is_some(), "{name}");
    }
    // Nothing of what was refused is set.
    assert_eq!(
        one.world
            .get("/api/settings")
            .body
            .matches("origin\":\"property")
            .count(),
        0
    );
}

#[test]
fn the_bounds_of_an_adaptive_limit_are_set_in_the_file() {
    let one = One::new("limit = { kind = \"adaptive\", min = 2, initial = 5, max = 50 }");
    let refused = one.put("shop", LIMIT, "1");
    assert_eq!(refused.status(), "422");
    assert!(refused.body.contains("adaptive"), "{}", refused.body);
    let _both = [one.hold(GET), one.hold(GET)];
}

/// A reload may take the effect of a property away, and give it back.
#[test]
fn a_property_that_a_reload_leaves_without_effect_says_so() {
    let one = One::new("limit = 10");
    one.set(LIMIT, "5");
    let shown = |one: &One| one.world.get("/api/settings?key=shop").body;
    assert!(!shown(&one).contains("effect\":\""), "{}", shown(&one));
    let notes = one.reload("limit = { kind = \"adaptive\", min = 2, initial = 5, max = 50 }");
    assert!(
        notes.contains(
            "maxConcurrentRequests = 5 has no effect: the limit of the route is adaptive"
        ),
        "{notes}"
    );
    let text = shown(&one);
    assert!(
        text.contains("\"without_effect\":\"the limit of the route is adaptive"),
        "{text}"
    );
    let notes = one.reload("limit = 10");
    assert!(!notes.contains("has no effect"), "{notes}");
    assert!(!shown(&one).contains("effect\":\""), "{}", shown(&one));
}

/// Without a breaker, nothing is forced closed: the order is refused, and an order before it stays.
#[test]
fn a_route_without_a_breaker_is_not_forced_closed() {
    let one = One::new("");
    let name = "circuitBreaker.forceClosed";
    let order = |order: &str| {
        one.world
            .change(&format!("POST /api/breakers/shop/{order}"), "")
    };
    let refused = [one.put("shop", name, "true"), order("close")];
    for refused in refused {
        assert_eq!(refused.status(), "422", "{refused:?}");
        assert!(refused.body.contains("has no breaker"), "{}", refused.body);
    }
    one.set(name, "false");
    assert_eq!(order("open").status(), "200");
    assert_eq!(order("close").status(), "422");
    assert_eq!(one.is_forced_open(), "true", "it is forced open still");
    assert_eq!(order("auto").status(), "200");
    // Once there is a breaker, it can be forced.
    one.set("circuitBreaker.enabled", "true");
    assert_eq!(order("close").status(), "200");
    one.set("circuitBreaker.enabled", "false");
    let text = one.world.get("/api/settings?key=shop").body;
    assert!(
        text.contains("\"without_effect\":\"the route has no breaker"),
        "{text}"
    );
}

#[test]
fn what_is_forced_open_is_not_forced_closed_by_a_property() {
    for settings in ["", "breaker = {}"] {
        let one = One::new(settings);
        let name = "circuitBreaker.forceClosed";
        let open = one.world.change("POST /api/breakers/shop/open", "");
        assert_eq!(open.status(), "200");
        let refused = one.put("shop", name, "true");
        assert_eq!(refused.status(), "422", "{settings}: {refused:?}");
        assert!(refused.body.contains("is forced open"), "{}", refused.body);
        assert_eq!(one.is_forced_open(), "true");
    }
}

/// A fallback to an upstream has no timeout of its own, so it is no route that has the value.
#[test]
fn a_default_timeout_is_refused_if_only_routes_without_one_could_have_it() {
    let back = Upstream::new();
    for settings in [
        "timeout = false",
        "timeout = \"1s\"\nfallback = { upstream = \"back\" }",
    ] {
        let one = One {
            world: World::with_route(&[&back], settings),
            back: Upstream::new(),
        };
        let refused = one.put("default", TIMEOUT, "500");
        assert_eq!(refused.status(), "422", "{settings}: {refused:?}");
        let name = format!("hystrix.command.default.{TIMEOUT}");
        assert_eq!(one.world.parts.properties.get(&name), None);
    }
}
