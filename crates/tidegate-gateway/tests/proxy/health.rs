//! Health checks.

use tidegate_testkit::{has, lacks};

use crate::operation::{World, operated};
use crate::*;

fn text(servers: &[&Upstream], health: &str) -> String {
    route(servers, "").replace(
        "balance",
        &format!("health = {{ every = \"100s\", timeout = \"90s\", {health} }}\nbalance"),
    )
}

/// Accepts a check and responds to it.
fn check(back: &Upstream, response: &str) -> Message {
    responded(back.accept(), response)
}

/// Responds to a check, and waits until the gateway has taken the response: as long as it has not, the
/// time of the check runs.
fn responded(mut peer: Peer, response: &str) -> Message {
    let request = peer.message();
    // A check may end before it has read a large body.
    let _ = peer.0.write_all(response.as_bytes());
    peer.0.shutdown_output();
    peer.rest();
    request
}

/// Advances time until a check comes, and responds to it. The next check is due a while after the end
/// of the last one.
fn next_check(fixture: &Fixture, back: &Upstream, response: &str) -> Message {
    responded(await_check(&fixture.clock, back), response)
}

/// Advances time until the server is checked.
fn await_check(clock: &ManualClock, back: &Upstream) -> Peer {
    await_any(&[back], || clock.advance(Duration::from_secs(1))).1
}

/// Advances time until one of the servers is checked. Returns its number.
fn await_any(servers: &[&Upstream], pass: impl Fn()) -> (usize, Peer) {
    tidegate_testkit::until_some("a check comes", || {
        let mut all = servers.iter().enumerate();
        let came = all.find_map(|(index, back)| Some((index, back.try_accept()?)));
        if came.is_none() {
            pass();
        }
        came
    })
}

/// Coarse timers fire with the next tick.
const A_MOMENT: Duration = Duration::from_millis(200);
const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nall ok\n";
const BAD: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_server_is_down_after_failures_and_up_after_successes() {
    let back = Upstream::new();
    let fixture = Fixture::new(&text(
        &[&back],
        "path = \"/health\", body = \"ok\", up = 2, down = 2",
    ));
    fixture.clock.advance(A_MOMENT);
    let request = check(&back, FINE);
    assert_eq!(request.line(), "GET /health HTTP/1.1");
    let next = |response: &str| drop(next_check(&fixture, &back, response));
    next(BAD);
    next("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops");
    let refused = tidegate_testkit::until_some("the server is down", || {
        let response = ask(&fixture, &back);
        (response.status() == "503").then_some(response)
    });
    assert_eq!(refused.field("tidegate-refused"), Some("no_server shop"));
    next(FINE);
    // One success is not enough.
    assert_eq!(ask(&fixture, &back).status(), "503");
    next(FINE);
    tidegate_testkit::until("the server is up", || {
        ask(&fixture, &back).status() == "200"
    });
}

/// Sends a request, and responds if it reaches the server.
fn ask(fixture: &Fixture, back: &Upstream) -> Message {
    let mut client = fixture.send(&GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    let served = tidegate_testkit::until_some("the request ends or reaches the server", || {
        if let Some(server) = back.try_accept() {
            return Some(Some(server));
        }
        let is_readable = client.0.wait_readable(Duration::ZERO);
        is_readable.then_some(None)
    });
    if let Some(mut server) = served {
        server.serve(FINE);
    }
    client.message()
}

#[test]
fn the_length_of_a_body_matters_only_where_its_text_does() {
    let large = "x".repeat(70_000);
    let large =
        format!("HTTP/1.1 200 OK\r\nContent-Length: 70000\r\nConnection: close\r\n\r\n{large}");
    for (health, status) in [("", "200"), (", body = \"x\"", "503")] {
        let back = Upstream::new();
        let fixture = Fixture::new(&text(&[&back], &format!("path = \"/\", down = 1{health}")));
        fixture.clock.advance(A_MOMENT);
        check(&back, &large);
        // The check before has ended.
        next_check(&fixture, &back, &large);
        assert_eq!(ask(&fixture, &back).status(), status, "{health}");
    }
}

#[test]
fn a_check_by_tcp_needs_only_a_connection() {
    let back = Upstream::new();
    let fixture = Fixture::new(&text(&[&back], "kind = \"tcp\", up = 1, down = 1"));
    fixture.clock.advance(A_MOMENT);
    assert_eq!(back.accept().rest(), "");
    let mut client = fixture.send(GET);
    back.accept().serve_ok(&mut client);
}

/// Returns what was reported about the checks.
fn told(world: &World) -> Vec<String> {
    let all = world.parts.reports.events.latest().into_iter().rev();
    let own = all.filter(|change| change.origin == "health");
    own.map(|change| change.what).collect()
}

#[test]
fn a_server_to_which_no_connection_can_be_made_is_down_until_there_is_one() {
    let back = Upstream::new();
    let at = back.address();
    let world = World::new(&text(&[&back], "kind = \"tcp\", up = 1, down = 1"));
    world.clock.advance(A_MOMENT);
    assert_eq!(back.accept().rest(), "");
    let _port = back.stop();
    tidegate_testkit::until("it is down", || {
        world.clock.advance(Duration::from_secs(1));
        !told(&world).is_empty()
    });
    let start = format!("upstream.back {at}: is down: ");
    assert!(told(&world)[0].starts_with(&start), "{:?}", told(&world));
    world.responds("503");
    let back = Upstream::at(&at);
    await_check(&world.clock, &back);
    tidegate_testkit::until("it is up", || told(&world).len() > 1);
    assert_eq!(told(&world)[1..], [format!("upstream.back {at}: is up")]);
    let mut client = world.send(GET);
    back.accept().serve_ok(&mut client);
}

#[test]
fn a_server_is_up_with_the_statuses_of_the_settings() {
    let rows = [
        ("", ["200 A", "399 B"], ["199 C", "400 D"]),
        ("status = 404", ["404 A", "404 B"], ["200 C", "403 D"]),
        (
            "status = \"500-502\"",
            ["500 A", "502 B"],
            ["499 C", "503 D"],
        ),
    ];
    for (setting, good, bad) in rows {
        let back = Upstream::new();
        let settings = format!("path = \"/\", up = 1, down = 1, {setting}");
        let world = World::new(&text(&[&back], settings.trim_end_matches(", ")));
        let next = |status: &str| {
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            responded(await_check(&world.clock, &back), &head);
        };
        for (round, (good, bad)) in good.into_iter().zip(bad).enumerate() {
            next(bad);
            let told = |count: usize| told(&world).len() == count;
            tidegate_testkit::until(&format!("{bad} is bad"), || told(2 * round + 1));
            next(good);
            tidegate_testkit::until(&format!("{good} is good"), || told(2 * round + 2));
        }
    }
}

#[test]
fn a_check_takes_no_longer_than_its_time() {
    let back = Upstream::new();
    let health = "health = { path = \"/\", every = \"100s\", timeout = \"5s\", down = 1 }\n";
    let text = route(&[&back], "").replace("balance", &format!("{health}balance"));
    let world = World::new(&text);
    world.clock.advance(A_MOMENT);
    let mut silent = back.accept_asked();
    world.clock.advance(Duration::from_secs(4));
    let mut client = world.send(GET);
    back.accept().serve_ok(&mut client);
    assert_eq!(told(&world), [""; 0]);
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(silent.rest(), "");
    tidegate_testkit::until("it is down", || told(&world).len() == 1);
    world.responds("503");
}

#[test]
fn a_server_is_checked_once_in_a_period_with_several_loops() {
    let back = Upstream::new();
    let fixture = Fixture::with_loops(&text(&[&back], "path = \"/\""), 3);
    next_check(&fixture, &back, FINE);
    for round in 0..6 {
        let before = fixture.clock.now();
        next_check(&fixture, &back, FINE);
        let period = fixture.clock.now() - before;
        // Coarse timers may fire a tick early.
        assert!(
            period >= Duration::from_secs(99),
            "round {round}: {period:?}"
        );
    }
}

#[test]
fn checks_of_servers_are_spread_over_loops() {
    for busy in [0, 1] {
        let servers = [Upstream::new(), Upstream::new()];
        let [one, two] = &servers;
        let fixture = Fixture::with_loops(&text(&[one, two], "kind = \"tcp\""), 2);
        // The clock cannot wait for a loop that is busy.
        let next = || await_any(&[one, two], || fixture.clock.jump(Duration::from_secs(1))).0;
        fixture.while_busy(busy, || {
            for _ in 0..2 {
                assert_eq!(next(), 1 - busy, "the loop of the other one is busy");
            }
        });
        await_check(&fixture.clock, &servers[busy]);
    }
}

#[test]
fn checks_of_servers_are_spread_over_time() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&text(&[&one, &two], "kind = \"tcp\""));
    fixture.clock.advance(A_MOMENT);
    one.accept();
    assert!(two.is_quiet());
    fixture.clock.advance(Duration::from_secs(51));
    two.accept();
}

#[test]
fn checks_end_with_their_upstream() {
    let back = Upstream::new();
    let fixture = Fixture::new(&text(&[&back], "kind = \"tcp\""));
    fixture.clock.advance(A_MOMENT);
    back.accept();
    fixture.reload("[route.r]\nrespond = 200\n");
    fixture.clock.advance(Duration::from_secs(300));
    fixture.responds("200");
    assert!(back.is_quiet());
}

/// Requests that have begun keep the old configuration, with its checks, for long.
#[test]
fn a_reload_ends_the_old_checks_although_a_request_keeps_the_old_configuration() {
    let back = Upstream::new();
    let text = |health: &str| format!("{}timeout = false\n", text(&[&back], health));
    let fixture = Fixture::new(&text("path = \"/old\", up = 1, down = 1"));
    fixture.clock.advance(A_MOMENT);
    assert_eq!(check(&back, FINE).line(), "GET /old HTTP/1.1");
    let (mut client, mut server) = fixture.open(GET, &back);
    let new = text("path = \"/new\", up = 1, down = 1");
    fixture.reload(&new);
    for _ in 0..3 {
        let asked = next_check(&fixture, &back, BAD);
        assert_eq!(asked.line(), "GET /new HTTP/1.1");
    }
    let is_up = || fixture.gateway.upstreams()[0].servers[0].is_up;
    tidegate_testkit::until("it is down", || !is_up());
    // Without checks it is up, and nobody says that it is down.
    let without = route(&[&back], "timeout = false");
    fixture.reload(&without);
    assert!(is_up());
    fixture.clock.advance(Duration::from_secs(300));
    server.answer(&mut client);
    assert!(is_up() && back.is_quiet());
}

/// A reload removes the server, or the whole upstream, while a check of it is in progress.
#[test]
fn a_server_that_is_gone_is_not_checked_although_a_request_is_in_flight() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let health = "path = \"/\", up = 1, down = 1";
    let without_server = text(&[&two], health);
    for without in ["[route.r]\nrespond = 200\n", &*without_server] {
        let world = World::new(&format!("{}timeout = false\n", text(&[&one, &two], health)));
        let (mut client, mut server) = world.open(GET, &one);
        world.clock.advance(A_MOMENT);
        let mut checked = one.accept_asked();
        world.reload("test", &operated(without));
        checked.write(BAD);
        checked.rest();
        world.pass_the_loop();
        world.clock.advance(Duration::from_secs(300));
        world.pass_the_loop();
        assert!(one.is_quiet(), "{without}");
        let changes = format!("{:?}", world.parts.reports.events.latest());
        lacks(&changes, [&one.address()]);
        server.answer(&mut client);
        drop(world);
        while two.try_accept().is_some() {}
    }
}

#[test]
fn a_server_that_is_down_stays_down_with_another_weight_limit_or_check() {
    let back = Upstream::new();
    let text = |weight: u32, most: u32, path: &str| {
        let at = back.address();
        let health = format!("path = \"{path}\", up = 1, down = 1");
        let text = text(&[&back], &health).replace(
            &format!("servers = [\"{at}\"]"),
            &format!("servers = [{{ at = \"{at}\", weight = {weight} }}]\nmax_in_flight = {most}"),
        );
        has(&text, ["weight"]);
        text
    };
    let fixture = Fixture::new(&text(1, 5, "/a"));
    let is_up = || fixture.gateway.upstreams()[0].servers[0].is_up;
    fixture.clock.advance(A_MOMENT);
    check(&back, BAD);
    tidegate_testkit::until("it is down", || !is_up());
    for (weight, most, path) in [(2, 5, "/a"), (2, 6, "/a"), (2, 6, "/b"), (1, 1, "/c")] {
        let reloaded = fixture.gateway.reload(config(&text(weight, most, path)));
        assert_eq!(reloaded.unwrap(), [""; 0]);
        assert!(!is_up(), "weight {weight}, limit {most}, {path}");
        fixture.refusal(GET, "no_server shop");
    }
    // The checks of the last settings are in force.
    let asked = next_check(&fixture, &back, FINE);
    assert_eq!(asked.line(), "GET /c HTTP/1.1");
    tidegate_testkit::until("it is up", is_up);
}
