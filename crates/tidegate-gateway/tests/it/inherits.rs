//! Inherited defaults: key by key, as a whole, switched off.

use std::path::Path;
use std::time::Duration;

use tidegate_gateway::config::types::Route;
use tidegate_gateway::config::{Count, LimitKind, Percent, Status, load};

use crate::files::{check, fails, machine};

const DEFAULTS: &str = "\
[listen]
http = \"h:80\"
[defaults.route]
timeout = \"2s\"
limit = { kind = \"adaptive\", min = 2, max = 50 }
breaker = { error_rate = 30, sleep = \"7s\" }
fallback = { status = 200, body = \"old\" }
[defaults.upstream]
connect_timeout = \"100ms\"
[upstream.a]
servers = \"h:1\"
[route.r]
upstream = \"a\"
";

/// Returns the route `r` of the defaults and these lines.
fn route(lines: &str) -> Route {
    let text = format!("{DEFAULTS}{lines}\n");
    let machine = machine(&[("t.toml", &text)]);
    let loaded = load(Path::new("t.toml"), &*machine.disk, &*machine.variables).unwrap();
    let messages = loaded.mistakes.render(&loaded.sources);
    let config = loaded.config.unwrap_or_else(|| panic!("{messages}"));
    let connect_timeout = config.upstreams[0].value.connect_timeout;
    assert_eq!(connect_timeout, Duration::from_millis(100));
    config.routes[0].value.clone()
}

#[test]
fn a_section_inherits_key_by_key() {
    let breaker = route("breaker = { sleep = \"1s\" }").breaker.unwrap();
    assert_eq!(breaker.sleep, Duration::from_secs(1));
    assert_eq!(breaker.error_rate, Percent(30));
    assert_eq!(breaker.volume, Count(20));
    let breaker = route("breaker = true").breaker.unwrap();
    assert_eq!(breaker.sleep, Duration::from_secs(7));
}

#[test]
fn false_switches_an_inherited_setting_off() {
    let route = route("breaker = false\ntimeout = false");
    assert_eq!((route.breaker, route.timeout), (None, None));
}

#[test]
fn true_switches_a_section_on_with_what_it_inherits() {
    let queue = route("queue = true").queue.unwrap();
    assert_eq!(queue.max, Count(50));
    let text = "[defaults.route]\nqueue = false\nretry = true\n[listen]\nhttp = \"h:1\"\n\
                [route.a]\nqueue = true\nretry = { times = 2 }\nrespond = 200\n";
    assert_eq!(
        check(text),
        ("t.toml: can be used; routes: 1, upstreams: 0\n".into(), 0)
    );
}

#[test]
fn a_section_of_another_kind_inherits_nothing() {
    let limit = route("limit = { kind = \"fixed\" }").limit;
    assert_eq!((limit.kind, limit.max), (LimitKind::Fixed, Count(100)));
    let limit = route("limit = { max = 60 }").limit;
    assert_eq!((limit.kind, limit.max), (LimitKind::Adaptive, Count(60)));
    assert_eq!(limit.min, Count(2));
    let limit = route("limit = 60").limit;
    assert_eq!((limit.kind, limit.max), (LimitKind::Adaptive, Count(60)));
}

#[test]
fn alternatives_are_inherited_as_a_whole() {
    let fallback = route("fallback = { upstream = \"a\" }").fallback.unwrap();
    assert_eq!(fallback.status, Status(503));
    assert_eq!(fallback.body, "");
    assert_eq!(route("").fallback.unwrap().body, "old");
}

#[test]
fn a_mistake_in_the_defaults_is_reported_once_even_if_nothing_inherits_it() {
    let text = "[defaults.route]\ntimeout = 1\n[listen]\nhttp = \"h:1\"\n\
                [route.a]\npath = \"/a\"\nrespond = 200\n[route.b]\npath = \"/b\"\nrespond = 200\n";
    let message = "t.toml:2:11: defaults.route.timeout: 1 is not a duration";
    let output = fails(text, [message]);
    assert!(output.ends_with("1 error, 0 warnings\n"), "{output}");
    fails("[defaults.route]\ntimeout = 1\n", [""]);
}
