//! The page: its file, its frames, who gets them, and what is refused.

use tidegate::isolate::{BreakerConfig, BreakerWindow, Command};
use tidegate_gateway::config::Secret;

use tidegate_testkit::{begins, has};

use crate::streams::{Stream, millis};
use crate::{World, body, has_status, settings, status};

/// Returns the id of a frame.
fn id(frame: &str) -> &str {
    let line = frame.lines().find_map(|line| line.strip_prefix("id: "));
    line.unwrap_or_else(|| panic!("{frame} has no id"))
}

/// Moves the clock until a frame contains a text, and returns the frame.
fn until_frame(world: &World, page: &mut Stream, text: &str) -> String {
    for _ in 0..100 {
        world.clock.advance(millis(500));
        let frame = page.next();
        if frame.contains(text) {
            return frame;
        }
    }
    panic!("no frame contains {text}");
}

#[test]
fn the_page_is_one_file_with_a_policy_and_needs_no_token() {
    let mut settings = settings();
    settings.read_token = Some(Secret::Value("read".to_owned()));
    let world = World::with(&settings).unwrap();
    let page = world.get("/");
    assert_eq!(status(&page), 200);
    let fields = [
        "Content-Type: text/html; charset=utf-8\r\n",
        "Content-Security-Policy: default-src 'none'; style-src 'sha256-",
        "connect-src 'self'",
        "X-Content-Type-Options: nosniff\r\n",
        "Cache-Control: no-store\r\n",
    ];
    has(&page, fields);
    assert!(body(&page).starts_with("<!doctype html>"));
    // It contains no data: these need the token.
    for path in ["/page/events", "/page/route?key=cart", "/page/save"] {
        assert_eq!(status(&world.get(path)), 401, "{path}");
    }
    let query = "/page/events?authorization=Bearer%20read";
    assert_eq!(status(&Stream::open(&world, query).head), 200);
    let foreign = world.request("GET /", "Host: evil.example\r\n", "");
    assert_eq!(status(&foreign), 421);
}

#[test]
fn a_page_gets_everything_then_changes_twice_a_second() {
    let world = World::new();
    let mut page = Stream::open(&world, "/page/events");
    has(&page.head, ["Content-Type: text/event-stream\r\n"]);
    let full = page.next();
    begins(&full, "retry: 1000\nid: ");
    let parts = [
        "\nevent: full\ndata: {\"version\":1,",
        "{\"name\":\"rate\",\"title\":\"Rate\",\"unit\":\"1/s\"",
        "{\"key\":\"cart\",\"group\":\"shop\"",
        "\"says\":\"no calls\"",
        "\"address\":\"10.0.0.1:80\"",
    ];
    has(&full, parts);
    assert!(full.ends_with("}\n\n") && full.matches('\n').count() == 5);
    world.clock.advance(millis(500));
    let change = page.next();
    has(&change, ["event: change\ndata: {\"sample\":"]);
    assert!(!change.contains("\"schema\""));
    let entry = world.cart.admit().unwrap();
    let frame = until_frame(&world, &mut page, "\"rows\":[[0,[");
    drop(entry);
    assert_ne!(id(&frame), id(&full));
}

#[test]
fn a_page_that_comes_back_goes_on_where_it_was() {
    let world = World::new();
    let mut page = Stream::open(&world, "/page/events");
    let last = id(&page.next()).to_owned();
    drop(page);
    let mut again = Stream::open(&world, &format!("/page/events?since={last}"));
    world.clock.advance(millis(500));
    has(again.next(), ["event: change\n"]);
    // An id of another process is of no use.
    let mut other = Stream::open(&world, "/page/events?since=0-1");
    has(other.next(), ["event: full\n"]);
    // The routes are others.
    let _more: Command = {
        let more = Command::builder("more").group("shop");
        more.build(&world.gateway.isolation).unwrap()
    };
    let frame = until_frame(&world, &mut again, "\"key\":\"more\"");
    has(&frame, ["event: full\n"]);
}

#[test]
fn a_page_too_many_is_told_so_until_one_is_closed() {
    let world = World::new();
    let mut open: Vec<Stream> = (0..5)
        .map(|_| Stream::open(&world, "/page/events"))
        .collect();
    for page in &mut open {
        has(page.next(), ["event: full\n"]);
    }
    let mut sixth = Stream::open(&world, "/page/events");
    let refusal = "event: refused\ndata: {\"why\":\"at most 5 pages are open at once";
    assert!(sixth.next().starts_with(refusal));
    assert_eq!(sixth.next(), "", "and it ends");
    // The streams of Hystrix have places of their own.
    assert_eq!(status(&Stream::open(&world, "/hystrix.stream").head), 200);
    drop(open.remove(2));
    tidegate_testkit::until("the place is free", || {
        let mut page = Stream::open(&world, "/page/events");
        let is_open = page.next().contains("event: full\n");
        if is_open {
            open.push(page);
        }
        is_open
    });
}

#[test]
fn a_slow_page_gets_fewer_frames_and_never_a_queue() {
    let world = World::new();
    // So much that the sockets do not hold the first frame.
    let long = "x".repeat(4000);
    let routes: Vec<Command> = (0..2500)
        .map(|number| {
            let command = Command::builder(format!("{number} {long}")).group("many");
            command.build(&world.gateway.isolation).unwrap()
        })
        .collect();
    let mut quick = Stream::open(&world, "/page/events?since=0-0");
    until_frame(&world, &mut quick, "\"key\":\"0 xxx");
    let mut slow = Stream::open(&world, "/page/events?since=0-0");
    let mut latest = String::new();
    for number in 0..10 {
        // Something to tell.
        let now = std::time::SystemTime::UNIX_EPOCH;
        world.events.add(now, "test", format!("step {number}"));
        latest = until_frame(&world, &mut quick, &format!("\"step {number}\""));
    }
    let first = slow.next();
    has(&first, ["event: full\n"]);
    let mut frames = 0;
    let mut told = String::new();
    while !told.contains("\"step 9\"") {
        world.clock.advance(millis(500));
        told.push_str(&slow.next());
        frames += 1;
    }
    assert!(frames <= 3, "{frames} frames, and the quick one had ten");
    assert!(told.contains("\"step 0\"") || first.contains("\"step 0\""));
    assert!(latest.len() < first.len() / 100, "changes are small");
    drop(routes);
}

#[test]
fn changes_and_short_states_of_breakers_are_in_the_log() {
    let world = World::new();
    let mut page = Stream::open(&world, "/page/events");
    has(page.next(), ["event: full\n"]);
    has_status(&world.change("POST /api/breakers/cart/open", ""), 200);
    let frame = until_frame(&world, &mut page, "breaker of cart: forced open");
    let parts = [
        "\"kind\":\"change\",\"origin\":\"admin 127.0.0.1:",
        "an operator forces the breaker open",
    ];
    has(&frame, parts);
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(1),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let flaky = Command::builder("flaky").group("shop").breaker(breaker);
    let flaky: Command = flaky.build(&world.gateway.isolation).unwrap();
    until_frame(&world, &mut page, "\"key\":\"flaky\"");
    let entry = flaky.admit().unwrap();
    assert!(entry.verdict(false));
    drop(entry);
    // It is closed again before the next sample.
    world.gateway.isolation.reset_breaker("flaky");
    let frame = until_frame(&world, &mut page, "flaky: closed to open");
    has(&frame, ["\"route\":\"flaky\"", "flaky: open to closed"]);
}

#[test]
fn a_knob_is_switched_with_the_token() {
    let world = World::new();
    let line = "POST /api/knobs/flaky/dead";
    assert_eq!(status(&world.request(line, "", "")), 401);
    let turned = world.change(line, "");
    has_status(&turned, 200);
    assert_eq!(body(&turned), "{\"done\":\"flaky is dead\"}");
    assert_eq!(world.events.latest()[0].what, "flaky is dead");
    let unknown = world.change("POST /api/knobs/flaky/odd", "");
    assert_eq!(status(&unknown), 404);
    let mut page = Stream::open(&world, "/page/events");
    world.clock.advance(millis(500));
    let mut frames = page.next();
    frames.push_str(&until_frame(&world, &mut page, ""));
    let knob = "\"knobs\":[{\"name\":\"flaky\"";
    has(&frames, [knob, "\"value\":\"dead\""]);
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let world = World::new();
    let line = "POST /api/breakers/cart/open";
    let token = "Authorization: Bearer full-token\r\n";
    let rows = [
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: http://localhost:1\r\n", 403),
        ("Origin: http://localhost\r\n", 200),
        ("Origin: https://LOCALHOST\r\n", 200),
        ("", 200),
    ];
    for (origin, expected) in rows {
        let response = world.request(line, &format!("{token}{origin}"), "");
        assert_eq!(status(&response), expected, "{origin}");
        let without = world.request(line, origin, "");
        assert_eq!(status(&without), 401, "{origin}");
    }
    let foreign = format!("{token}Host: evil.example\r\nOrigin: http://evil.example\r\n");
    assert_eq!(status(&world.request(line, &foreign, "")), 421);
}

#[test]
fn a_page_of_another_origin_takes_no_place_of_ours() {
    let world = World::new();
    // An image of another page has no origin, but a browser says where it comes from.
    for field in [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        for stream in ["page/events", "hystrix.stream"] {
            let refused = world.request(&format!("GET /{stream}"), &format!("{field}\r\n"), "");
            assert_eq!(status(&refused), 403, "{stream} {field}");
        }
    }
    let own = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
    let mut pages: Vec<Stream> = (0..5)
        .map(|_| Stream::open_with(&world, "/page/events", own))
        .collect();
    for page in &mut pages {
        has(page.next(), ["event: full\n"]);
    }
    for fields in [own, ""] {
        let mut stream = Stream::open_with(&world, "/hystrix.stream", fields);
        assert!(stream.next().starts_with("data: "), "{fields}");
    }
}

#[test]
fn histories_settings_and_files_are_of_the_asked_route() {
    let world = World::new();
    let nasty = "<script>\"'\n";
    let odd: Command = Command::builder(nasty)
        .group("shop")
        .build(&world.gateway.isolation)
        .unwrap();
    // The samples before may be from before the route.
    let mut page = Stream::open(&world, "/page/events");
    let mut frames = page.next();
    for _ in 0..2 {
        frames.push_str(&until_frame(&world, &mut page, ""));
    }
    assert!(!frames.contains("<script>") && frames.contains("u003cscript>"));
    let history = world.get("/page/route?key=%3Cscript%3E%22%27%0A");
    let expected = "{\"key\":\"\\u003cscript>\\\"'\\u000a\",\"times\":[";
    assert!(body(&history).starts_with(expected), "{history}");
    has(
        &history,
        [
            "\"heat\":{\"times\":[",
            "\"bounds_ms\":[0.05,",
            "\"moves\":[]",
        ],
    );
    assert_eq!(status(&world.get("/page/route?key=none")), 404);
    assert_eq!(status(&world.get("/page/route")), 404);
    let own = world.get("/api/settings?key=cart");
    has(&own, ["route.cart.limit.max"]);
    assert!(!own.contains("script"));
    let saved = world.get("/page/save");
    let histories = "\"histories\":[{\"key\":\"\\u003cscript";
    has(&saved, ["{\"version\":1,\"snapshot\":{", histories]);
    drop(odd);
}

#[test]
fn after_the_end_pages_end_and_none_begins() {
    let world = World::new();
    let mut page = Stream::open(&world, "/page/events");
    has(page.next(), ["event: full\n"]);
    world.admin.close_streams();
    assert_eq!(page.next(), "", "the page has its end");
    let mut late = Stream::open(&world, "/page/events");
    assert!(late.next().starts_with("event: refused\n"));
}
