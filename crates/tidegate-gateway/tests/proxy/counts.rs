//! What the log and the commands say about requests that the gateway itself responds to.

use crate::logs::value;
use crate::operation::World;
use crate::*;

/// Returns how often this has happened to the calls of the route.
fn total(world: &World, event: Event) -> u64 {
    let all = world.parts.isolation.snapshots();
    let own = all.iter().find(|one| one.key.as_str() == "shop");
    own.unwrap().totals[event]
}

/// Returns a value of a line of the log.
fn logged<'a>(line: &'a str, name: &str) -> &'a str {
    value(line, name).unwrap_or_else(|| panic!("{name} of {line}"))
}

#[test]
fn a_response_of_the_gateway_itself_has_its_length_in_the_log() {
    let back = Upstream::new();
    let more = "\n[route.own]\npath = \"/own\"\nrespond = { status = 200, body = \"hello\" }\n\
                [route.none]\npath = \"/none\"\nrespond = { status = 204, body = \"\" }\n\
                [route.spare]\npath = \"/spare\"\nupstream = \"back\"\nlimit = 1\n\
                fallback = { status = 200, body = \"spare\" }";
    let world = World::with_route(&[&back], &format!("limit = 1\npath = \"/a\"{more}"));
    let ask = |method: &str, path: &str| {
        let request = GET.replace("GET /a", &format!("{method} {path}"));
        world.send(&request)
    };
    let mut first = ask("GET", "/a");
    let server = back.accept_asked();
    let mut count = 0;
    let mut expect = |method: &str, path: &str, sent: &str| {
        let mut client = ask(method, path);
        let head = client.head();
        let length = field(&head, "content-length").unwrap_or("0").to_owned();
        if method == "GET" {
            assert_eq!(length, sent, "{path}");
        }
        count += 1;
        let line = world.lines(count).pop().unwrap();
        assert_eq!(logged(&line, "sent"), sent, "{line}");
    };
    expect("GET", "/a", "11");
    expect("HEAD", "/a", "0");
    expect("GET", "/own", "5");
    expect("HEAD", "/own", "0");
    expect("GET", "/none", "0");
    expect("GET", "/nowhere", "35");
    // A failure, and the fallback of one.
    drop(server);
    assert_eq!(first.message().body, "closed shop\n");
    assert_eq!(logged(&world.lines(7)[6], "sent"), "12");
    let mut client = ask("GET", "/spare");
    back.accept().message();
    assert_eq!(client.message().body, "spare");
    assert_eq!(logged(&world.lines(8)[7], "sent"), "5");
}

#[test]
fn fixed_fallbacks_are_counted() {
    let settings = "limit = 1\nfallback = { status = 200, body = \"[]\" }";
    let (back, world) = World::of(settings);
    let (mut first, server) = world.open(GET, &back);
    // Refused, and failed.
    assert_eq!(world.send(GET).message().body, "[]");
    assert_eq!(total(&world, Event::FallbackSuccess), 1);
    drop(server);
    assert_eq!(first.message().body, "[]");
    world.lines(2);
    assert_eq!(total(&world, Event::FallbackSuccess), 2);
    let served = world.send(GET);
    back.accept().serve(OK_CLOSE);
    drop(served);
    world.lines(3);
    assert_eq!(total(&world, Event::FallbackSuccess), 2);
}

#[test]
fn fallbacks_to_another_upstream_are_counted() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = "limit = 1\nfallback = { upstream = \"other\", limit = 1 }";
    let world = World::new(&with_other(&back, &other, settings));
    let (_first, _server) = world.open(GET, &back);
    let responses = [
        (OK_CLOSE, "200"),
        (
            "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "500",
        ),
    ];
    for (count, (response, status)) in responses.iter().enumerate() {
        let mut client = world.send(GET);
        other.accept().serve(response);
        assert_eq!(client.message().status(), *status);
        world.lines(count + 1);
        tidegate_testkit::until("the fallback has ended", || {
            let all = world.parts.isolation.snapshots();
            let fallback = all.iter().find(|one| one.key.as_str() == "shop:fallback");
            fallback.unwrap().active == 0
        });
    }
    let (mut held, mut spare) = world.open(GET, &other);
    world.refusal(GET, "limit shop");
    spare.write(OK_CLOSE);
    assert_eq!(held.message().body, "ok");
    world.lines(4);
    let counts = [
        Event::FallbackSuccess,
        Event::FallbackFailure,
        Event::FallbackRejection,
    ];
    assert_eq!(counts.map(|event| total(&world, event)), [2, 1, 1]);
}

#[test]
fn a_request_without_a_server_is_a_failure_that_no_breaker_counts() {
    let back = Upstream::new();
    let breaker = "breaker = { error_rate = 50, volume = 2 }";
    let world = World::with_route(&[&back], breaker);
    let drained = world.change(
        &format!("POST /api/servers/back/{}/drain", back.address()),
        "",
    );
    assert_eq!(drained.status(), "200");
    for count in 1..=6 {
        world.refusal(GET, "no_server shop");
        let line = world.lines(count).pop().unwrap();
        assert_eq!(logged(&line, "attempts"), "0", "nothing was tried");
        world.clock.advance(Duration::from_secs(1));
    }
    let counts = [Event::Failure, Event::BadRequest, Event::ShortCircuited];
    assert_eq!(counts.map(|event| total(&world, event)), [6, 0, 0]);
}

#[test]
fn what_is_cut_at_the_deadline_of_a_drain_is_closed_by_the_gateway() {
    let (back, world) = World::of("timeout = false");
    // One that waits, one whose response has begun, and one whose client leaves before.
    let (_waits, _first) = world.open(GET, &back);
    let (mut begun, mut second) = world.reach(GET, &back);
    second.serve("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    begun.head();
    assert_eq!(begun.bytes(4), "half");
    let (gone, _third) = world.open(GET, &back);
    drop(gone);
    assert_eq!(logged(&world.lines(1)[0], "reason"), "client_left");
    let gateway = world.operation.gateway();
    let drained = gateway.drain(Duration::ZERO, Duration::from_secs(5));
    tidegate_testkit::until("the connections are cut", || {
        world.clock.advance(Duration::from_secs(1));
        drained.is_done()
    });
    assert_eq!(drained.wait().unwrap().cut, 2);
    let lines = world.lines(3);
    for line in &lines[1..] {
        assert_eq!(logged(line, "reason"), "closing");
        assert_eq!(logged(line, "outcome"), "failed");
    }
}
