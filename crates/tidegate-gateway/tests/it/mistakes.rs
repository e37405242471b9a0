//! One row for each mistake that `tidegate check` finds.

use tidegate_testkit::{begins, has, lacks};

use crate::files::{cases, check, compare, fails, says};

/// A configuration to which a mistake is added.
pub(crate) const GOOD: &str = "\
[listen]
http = \"127.0.0.1:8080\"
[upstream.a]
servers = [\"10.0.0.1:80\"]
[route.a]
path = \"/a/*\"
upstream = \"a\"
";

/// The line of the text that is added to `GOOD`.
const LINE: usize = 8;

#[test]
fn a_good_file_has_no_mistake() {
    assert_eq!(
        check(GOOD),
        ("t.toml: can be used; routes: 1, upstreams: 1\n".into(), 0)
    );
}

/// The carets are below the value that is wrong, and below nothing else.
#[test]
fn a_mistake_shows_its_line_with_carets_below_what_is_wrong() {
    let wrong = "timeout = \"30\" # soon\nretry = -1\n";
    let expected = r#"
t.toml:8:11: route.a.timeout: `30` is not a duration: `30` has no unit
  8 | timeout = "30" # soon
    |           ^^^^ expected a duration, such as `"250ms"`, `"5s"` or `"1m 30s"`
t.toml:9:9: route.a.retry.times: -1 is not a positive whole number
  9 | retry = -1
    |         ^^ expected a positive whole number, such as `10`
2 errors, 0 warnings
"#;
    let found = check(&format!("{GOOD}{wrong}"));
    assert_eq!((found.0.as_str(), found.1), (expected.trim_start(), 1));
}

/// Adds each text to the route `a` and compares column, setting and message.
#[test]
fn each_wrong_value_has_its_place_and_its_expected_form() {
    let rows = r#"
timeuot = "1s"
> t.toml:8:1: route.a.timeuot: the key is unknown
> did you mean `timeout`?

colour = 1
> t.toml:8:1: route.a.colour: the key is unknown
> expected one of host, path

timeout = 30
> t.toml:8:11: route.a.timeout: 30 is not a duration: it has no unit
> such as `"250ms"`

timeout = "30"
> t.toml:8:11: route.a.timeout: `30` is not a duration: `30` has no unit
> such as

timeout = "0s"
> t.toml:8:11: route.a.timeout: no request is in time
> a positive duration

body = "1K"
> t.toml:8:8: route.a.body: `1K` is not a size: `K` is not a unit of size
> `"16KiB"`

breaker = { error_rate = 500 }
> t.toml:8:26: route.a.breaker.error_rate: 500 is not a whole percentage
> (1 to 100)

breaker = { error_rate = "0.5%" }
> t.toml:8:26: route.a.breaker.error_rate: `0.5%` is not a whole percentage
> (1 to 100)

breaker = { slow_rate = 0 }
> t.toml:8:25: route.a.breaker.slow_rate: 0 is not a whole percentage
> (1 to 100)

breaker = { window = "19ms" }
> t.toml:8:22: route.a.breaker.window: the window is too short
> at least `"20ms"`

retry = { times = 1, budget = 0.00001 }
> t.toml:8:31: route.a.retry.budget: 0.00001 is not a share: it is finer than 0.01 %
> `0.2`

breaker = { volume = 0 }
> t.toml:8:22: route.a.breaker.volume: 0 is not a positive whole number
> `10`

breaker = 5
> t.toml:8:11: route.a.breaker: 5 is not a table
> keys of error_rate

retry = { times = 1, budget = 2 }
> t.toml:8:31: route.a.retry.budget: 2 is not a share: it is not within 0 to 1
> `0.2`

limit = { kind = "adaptiv" }
> t.toml:8:18: route.a.limit.kind: `adaptiv` is not a kind of limit
> did you mean `adaptive`?

limit = { kind = "adaptive", min = 9, initial = 5, max = 8 }
> t.toml:8:58: route.a.limit.max: `min`, `initial` and `max` are not in order
> `min` ≤

limit = { kind = "adaptive", min = 10, max = 5 }
> t.toml:8:46: route.a.limit.max: `min`, `initial` and `max` are not in order
> `min` ≤

limit = true
> t.toml:8:9: route.a.limit.max: true is not a positive whole number
> `10`

limit = "ten"
> t.toml:8:9: route.a.limit.max: `ten` is not a positive whole number
> `10`

method = "get"
> t.toml:8:10: route.a.method[0]: `get` is not a method of HTTP
> did you mean `GET`?

host = "a.*.b"
> t.toml:8:8: route.a.host[0]: `a.*.b` is not a host: a `*` stands only
> `"*.example"`

host = ["b.example", 7]
> t.toml:8:22: route.a.host[1]: 7 is not a host
> `"shop.example"`

fallback = { status = 99 }
> t.toml:8:23: route.a.fallback.status: 99 is not a status of HTTP
> 200 to 599

fallback = { upstream = "b" }
> t.toml:8:25: route.a.fallback.upstream: there is no such upstream
> did you mean `a`?

header = { accept = 1 }
> t.toml:8:21: route.a.header.accept: 1 is not a text
> in quotes

server_timing = "yes"
> t.toml:8:17: route.a.server_timing: `yes` is not `true` or `false`
> expected

body = "${NONE}"
> t.toml:8:9: the variable `NONE` is not set
> `${NAME:-default}`

tunnel = { protocols = "h2c" }
> t.toml:8:24: route.a.tunnel.protocols[0]: `h2c` is not a protocol for tunnels: its requests
> `"websocket"`

tunnel = { protocols = ["websocket", "HTTP/2.0"] }
> t.toml:8:38: route.a.tunnel.protocols[1]: `HTTP/2.0` is not a protocol for tunnels: its
> such as

tunnel = { protocols = ["tls/1.2"] }
> t.toml:8:25: route.a.tunnel.protocols[0]: `tls/1.2` is not a protocol for tunnels: its
> such as

tunnel = { protocols = "a, h2c" }
> t.toml:8:24: route.a.tunnel.protocols[0]: `a, h2c` is not a protocol for tunnels
> such as

timeout = 1979-05-27
> t.toml:8:11: route.a.timeout: a date is not a duration
> such as
"#;
    compare(GOOD, rows);
    for (text, _) in cases(rows) {
        let (output, _) = check(&format!("{GOOD}{text}"));
        has(&output, [&format!("  {LINE} | {text}")]);
    }
}

/// Adds each text to the route `a`: what must not get into a head is refused.
#[test]
fn each_text_that_no_head_can_have_is_found() {
    let rows = r#"
header = { "a b" = "1" }
> t.toml:8:12: route.a.header.a b: no field can have this name

header = { a = "1", A = "2" }
> t.toml:8:21: route.a.header.A: the field has two values

header = { a = "1\r\nb: 2" }
> t.toml:8:16: route.a.header.a: no field can have this value

header = 1
> t.toml:8:10: route.a.header: 1 is not a table

rewrite = { request = { "" = "x" } }
> no field can have this name

rewrite = { response = { a = " x" } }
> route.a.rewrite.response.a: no field can have this value

rewrite = { request = { Host = "x" } }
> route.a.rewrite.request: the gateway sets the field `host` itself

rewrite = { response = { content-length = "0" } }
> the gateway sets the field `content-length` itself

rewrite = { path = "x" }
> t.toml:8:20: route.a.rewrite.path: the path cannot be made

rewrite = { path = "/x?a=b" }
> expected a path that begins with `/`, without a query

rewrite = { path = "/{id}" }
> expected only {rest}

rewrite = { path = "/{rest" }
> expected only {rest}

rewrite = { path = "/a b" }
> expected visible characters, without spaces

rewrite = { host = "a b" }
> t.toml:8:20: route.a.rewrite.host: no request can have this host

fallback = { content_type = "a\nb" }
> route.a.fallback.content_type: no field can have this value

[route.b]
redirect = "https://{hots}/"
> expected only {host}, {path}, {query}

[route.b]
redirect = "https:{path}"
> t.toml:9:12: route.b.redirect.to: the target is neither a URL nor an absolute path

[route.b]
redirect = { to = "{query}" }
> expected a URL or a path, such as `https://{host}{path}`

[route.b]
redirect = { to = "/x", status = 200 }
> route.b.redirect.status: a client does not follow

[upstream.b]
servers = "h:1"
health = { path = "x" }
> t.toml:10:19: upstream.b.health.path: no request can

[upstream.b]
servers = "h:1"
health = { path = "/ x" }
> upstream.b.health.path: no request can

[upstream.b]
servers = "h:1"
health = { every = "0s" }
> upstream.b.health.every: nothing happens in no time

breaker = { window = "0s" }
> route.a.breaker.window: nothing happens in no time

retry = { attempt_timeout = "0s" }
> route.a.retry.attempt_timeout: nothing happens in no time

[route.b]
path = "/ä"
respond = 200
> has a character that a URL has only with `%`
"#;
    compare(GOOD, rows);
}

#[test]
fn connect_is_allowed_only_by_a_route_that_names_it_and_a_tunnel_that_allows_it() {
    let rows = r#"
method = ["GET", "CONNECT"]
> `CONNECT` is not allowed by the tunnel of the route

tunnel = { connect = true }
> t.toml:8:22: route.a.tunnel.connect: the route does not take `CONNECT`

method = "CONNECT"
tunnel = { connect = true }
> t.toml:6:8: route.a.path: a request with `CONNECT` has no path

[route.b]
respond = 200
tunnel = true
> route.b.tunnel.max: a tunnel needs an upstream
"#;
    compare(GOOD, rows);
    let route = "[route.b]\nupstream = \"a\"\nmethod = \"CONNECT\"\ntunnel = { connect = true }\n";
    assert_eq!(check(&format!("{GOOD}{route}")).1, 0);
}

/// Compares the messages of whole files.
#[test]
fn each_mistake_between_sections_is_found() {
    let rows = r#"
[route.b]
path = "/b"
> t.toml:8:8: route.b: the route has no action

redirect = "/x"
> t.toml:5:8: route.a: the route has several actions: upstream, redirect

[route.b]
path = "/a/*"
respond = 200
> route.b: the route takes the same requests as `route.a`

[route.b]
path = "/x/../b"
respond = 200
> t.toml:9:8: route.b.path: no request has such a path

[route.b]
path = "b"
respond = 200
> t.toml:9:8: route.b.path: `b` is not a path: it does not begin

[route.b]
upstream = "aa"
> t.toml:9:12: route.b.upstream: there is no such upstream

[upstream.b]
servers = []
[route.b]
upstream = "b"
> upstream.b.servers: there is none

[upstream.b]
servers = [{ at = "h:1", weight = 0 }]
[route.b]
upstream = "b"
> each has weight 0

[upstream.b]
servers = ["h"]
> t.toml:9:12: upstream.b.servers[0].at: `h` is not an address: it has no port

[upstream.b]
servers = ["http://h:1"]
> is not an address: it is a URL

[upstream.b]
servers = ["::1:80"]
> an IPv6 address needs brackets

[upstream.b]
servers = [{ weight = 1 }]
> upstream.b.servers[0].at: the key `at` is missing

[upstream."b c"]
servers = "h:1"
> `b c` is not a name

[upstream.b]
servers = "h:1"
health = { every = "1s", timeout = "2s" }
[route.b]
upstream = "b"
> t.toml:10:36: upstream.b.health.timeout: a check takes longer

[upstream.b]
servers = "h:1"
health = { path = "/", every = "200ms" }
[route.b]
upstream = "b"
> t.toml:10:32: upstream.b.health.every: a check takes longer

[upstream.b]
servers = "h:1"
tls = { cert = "c.pem" }
[route.b]
upstream = "b"
> upstream.b.tls.cert: a certificate and its key belong together

timeout = "50ms"
queue = { wait = "60ms" }
> t.toml:8:11: route.a.timeout: the timeout of 50ms is not longer than `route.a.queue.wait` of 60ms

timeout = "1s"
breaker = { slow = "1s" }
> is not longer than `route.a.breaker.slow` of 1s

timeout = "1s"
retry = { times = 3, pause = "400ms" }
> t.toml:9:19: route.a.retry.times: the retries do not fit into the timeout: they may take 1s 200ms

timeout = "1s"
retry = { times = 1, attempt_timeout = "600ms" }
> they may take 1s 200ms, the timeout is 1s

timeout = "1s"
retry = { times = 1, attempt_timeout = "1s" }
> t.toml:8:11: route.a.timeout: the timeout of 1s is not longer than `route.a.retry.attempt_timeout` of 1s

timeout = "1s"
[upstream.b]
servers = "h:1"
connect_timeout = "2s"
[route.b]
upstream = "b"
timeout = "2s"
> t.toml:14:11: route.b.timeout: the timeout of 2s is not longer than `upstream.b.connect_timeout` of 2s

timeout = "1s"
fallback = { upstream = "a", timeout = "1s" }
> the timeout of 1s is not longer than `route.a.fallback.timeout` of 1s

fallback = { upstream = "a", timeout = "0s" }
> t.toml:8:40: route.a.fallback.timeout: nothing happens in no time

fallback = { timeout = "1s" }
> route.a.fallback.timeout: a fixed response has no time of its own

fallback = { limit = 3 }
> route.a.fallback.limit: a fixed response needs no limit

timeout = false
fallback = { upstream = "a", timeout = "1s" }
> route.a.fallback.timeout: the route has no timeout, of which this is a part

timeout = "1s"
fallback = { upstream = "a" }
breaker = { slow = "800ms" }
> the timeout of 1s, without the part of the fallback, is not longer than `route.a.breaker.slow` of 800ms

timeout = "1s"
fallback = { upstream = "a" }
retry = { times = 1, attempt_timeout = "400ms" }
> the retries do not fit into the timeout without the part of the fallback: they may take 800ms, the timeout is 750ms

[lisen]
x = 1
> t.toml:8:2: lisen: the key is unknown

[defaults.rote]
timeout = "1s"
> defaults.rote: the key is unknown
"#;
    compare(GOOD, rows);
}

#[test]
fn a_part_without_effect_is_a_warning() {
    let unused = "[upstream.b]\nservers = \"h:1\"\n";
    let message = "t.toml:8:11: warning: upstream.b: no route uses the upstream";
    says(unused, check(&format!("{GOOD}{unused}")), 0, [message]);
    let shadowed = "[route.b]\npath = \"/a\"\nrespond = 200\n[route.c]\npath = \"/a/\"\nrespond = 200\n\
                    [route.d]\npath = \"/a/{x}/*\"\nrespond = 200\n";
    let message = "warning: route.a: no request reaches the route";
    says(shadowed, check(&format!("{GOOD}{shadowed}")), 0, [message]);
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text = "[listen]\nhttp = 1\n[route.a]\ntimeout = 2\nlimit = 0\nx = = 1\n";
    let (output, status) = check(text);
    let places = [
        "t.toml:2:8",
        "t.toml:3:8",
        "t.toml:4:11",
        "t.toml:5:9",
        "t.toml:6:",
    ];
    has(&output, places);
    assert!(
        places.map(|place| output.find(place)).is_sorted(),
        "{output}"
    );
    assert_eq!(status, 1);
}

/// A setting that is there and wrong has one message, and does not count as absent.
#[test]
fn a_wrong_setting_has_no_further_mistakes() {
    let rows = [
        GOOD.replace("upstream = \"a\"", "upstream = 7"),
        GOOD.replace("upstream = \"a\"", "upstream = 7\ntunnel = true"),
        GOOD.replace("upstream = \"a\"", "redirect = { status = 301, to = 7 }")
            + "[route.b]\nupstream = \"a\"\n",
        format!(
            "{GOOD}fallback = {{ upstream = 7, limit = 3 }}\n[upstream.b]\nservers = \"h:1\"\n"
        ),
        GOOD.replace(
            "servers = [\"10.0.0.1:80\"]",
            "servers = [\"10.0.0.1:80000\"]",
        ),
        GOOD.replace("servers = [\"10.0.0.1:80\"]", "servers = []"),
        format!("{GOOD}timeout = 5\nqueue = {{ wait = \"40s\" }}\nretry = {{ pause = \"40s\" }}\n"),
        format!("{GOOD}timeout = \"40ms\"\nqueue = {{ wait = 5 }}\n"),
        format!("{GOOD}timeout = \"2s\"\nretry = {{ times = 0, attempt_timeout = \"1s\" }}\n"),
        format!("{GOOD}method = \"get\"\ntunnel = {{ connect = true }}\n"),
        format!("{GOOD}limit = {{ kind = \"adaptive\", max = -1, initial = 400 }}\n"),
        format!("{GOOD}[route.b]\npath = \"b\"\nrespond = 200\n[route.c]\nrespond = 200\n"),
        format!(
            "{GOOD}[route.b]\npath = \"b\"\nupstream = \"a\"\nrewrite = {{ path = \"/{{rest}}{{x}}\" }}\n"
        ),
        format!(
            "{GOOD}[upstream.b]\nservers = \"h:1\"\nhealth = {{ every = 2, timeout = \"6s\" }}\n[route.b]\npath = \"/b\"\nupstream = \"b\"\n"
        ),
        format!(
            "{GOOD}[upstream.b]\nservers = \"h:1\"\ntls = {{ cert = \"c\", key = 7 }}\n[route.b]\npath = \"/b\"\nupstream = \"b\"\n"
        ),
        format!("{GOOD}[listen.b]\nat = \"h:1\"\nproxy_protocol = true\ntrust = 7\n"),
        format!("{GOOD}[listen.admin]\nat = \"h:1\"\ntoken = 7\n"),
    ];
    for text in rows {
        fails(&text, ["\n1 error, 0 warnings\n"]);
    }
    let (output, _) = check(&GOOD.replace("[\"10.0.0.1:80\"]", "[]"));
    begins(&output, "t.toml:4:11: upstream.a.servers: there is none");
}

#[test]
fn control_characters_of_names_are_escaped() {
    let name = "a\\n\\u001b[31m";
    let route = format!("[route.\"{name}\"]\npath = \"/a/*\"\nrespond = 200\ncolour = 1\n");
    let twice = format!("{GOOD}{route}{}", route.replace("31m", "32m"));
    let parts = [
        "route.a\\n\\u{1b}[31m.colour: the key is unknown",
        "the route takes the same requests",
    ];
    lacks(says(name, check(&twice), 1, parts), ["\u{1b}"]);
}
