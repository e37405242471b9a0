//! A new configuration while requests are in flight.

use tidegate_testkit::{begins, has};

use crate::steps::connect;
use crate::*;

#[test]
fn requests_in_flight_end_under_the_old_configuration() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&one], "");
    let (mut client, mut server) = fixture.open(GET, &one);
    fixture.reload(&route(&[&two], ""));
    server.answer(&mut client);
    client.write(GET);
    two.accept().serve(OK);
    assert_eq!(client.message().body, "ok", "on the same connection");
    // The connection to the old server is closed.
    assert_eq!(server.rest(), "");
}

#[test]
fn what_has_not_changed_keeps_its_connections_and_its_counts() {
    let (back, fixture) = Fixture::of("limit = 1");
    let (mut client, mut server) = serve_first(&fixture, &back);
    let address = fixture.address();
    let changed = format!(
        "{}[route.new]\npath = \"/n\"\nrespond = 200\n",
        route(&[&back], "limit = 1")
    );
    fixture.reload(&changed);
    assert_eq!(fixture.address(), address);
    let mut new = fixture.send(&GET.replace("/a", "/n"));
    assert_eq!(new.message().status(), "200");
    client.ask(&mut server);
    assert!(back.is_quiet(), "the connection to the server is the same");
    assert_eq!(fixture.isolation.len(), 1);
    assert_eq!(fixture.total(Event::Success), 2, "the command is the same");
}

#[test]
fn a_command_takes_over_its_new_limit() {
    let (back, fixture) = Fixture::of("limit = 1");
    fixture.reload(&route(&[&back], "limit = 2"));
    let mut clients = [fixture.send(GET), fixture.send(GET)];
    let mut servers = [back.accept(), back.accept()];
    fixture.responds("503");
    for server in &mut servers {
        server.serve(OK);
    }
    for client in &mut clients {
        assert_eq!(client.message().body, "ok");
    }
}

#[test]
fn a_breaker_that_is_open_stays_open_after_a_reload_of_other_settings() {
    let back = Upstream::new();
    let breaker = "breaker = { error_rate = 50, volume = 2, sleep = \"50s\" }";
    let fixture = Fixture::with_route(&[&back], breaker);
    let bad = OK_CLOSE.replace("200 OK", "500 Oh");
    for _ in 0..2 {
        let mut client = fixture.send(GET);
        back.accept().serve(&bad);
        assert_eq!(client.message().status(), "500");
    }
    // It judges when a part of its window is over.
    fixture.clock.advance(Duration::from_secs(1));
    let is_refused = |what: &str| {
        let response = fixture.send(GET).message();
        let reason = response.field("tidegate-refused");
        assert_eq!(reason, Some("breaker shop"), "{what}");
        assert!(back.is_quiet(), "{what}");
    };
    is_refused("before a reload");
    let more = format!("{breaker}\nlimit = 3\ntimeout = \"9s\"\nqueue = {{ max = 2 }}");
    let shop = route(&[&back], &more);
    let other = format!("{shop}[route.new]\npath = \"/n\"\nrespond = 200\n");
    let balance = other.replace("round_robin", "random");
    let changes = [
        ("the route", shop),
        ("another route", other),
        ("the upstream", balance),
    ];
    for (what, text) in changes {
        fixture.reload(&text);
        is_refused(what);
        fixture.clock.advance(Duration::from_secs(10));
    }
    is_refused("after 30 s");
    // It is the same breaker: its sleep has not begun anew with a reload, and it can close.
    fixture.clock.advance(Duration::from_secs(21));
    pass(&fixture, &back);
    pass(&fixture, &back);
}

#[test]
fn an_adaptive_limit_that_has_moved_stays_after_a_reload_of_other_settings() {
    let back = Upstream::new();
    let limit = "limit = { kind = \"adaptive\", min = 5, initial = 10, max = 50 }";
    let fixture = Fixture::with_route(&[&back], limit);
    let limit_now = || fixture.isolation.snapshots()[0].adaptive_limit.unwrap();
    assert_eq!(limit_now(), 10);
    // It rises while all of its permits are in use and the latency is the same.
    for _ in 0..8 {
        let mut clients: Vec<Peer> = (0..10).map(|_| fixture.send(GET)).collect();
        let mut servers: Vec<Peer> = clients.iter().map(|_| back.accept()).collect();
        servers.iter_mut().for_each(|server| drop(server.message()));
        fixture.clock.advance(Duration::from_millis(200));
        servers.iter_mut().for_each(|server| server.write(OK_CLOSE));
        for client in &mut clients {
            assert_eq!(client.message().body, "ok");
        }
        fixture.wait_idle();
        fixture.clock.advance(Duration::from_secs(1));
    }
    let moved = limit_now();
    assert!(moved > 10, "{moved}");
    let more = format!("{limit}\ntimeout = \"9s\"\nqueue = {{ max = 2 }}\nbreaker = true");
    let shop = route(&[&back], &more);
    let other = format!("{shop}[route.new]\npath = \"/n\"\nrespond = 200\n");
    let balance = other.replace("round_robin", "random");
    for text in [shop, other, balance] {
        fixture.reload(&text);
        assert_eq!(limit_now(), moved, "{text}");
    }
}

#[test]
fn a_reload_does_not_fill_the_budget_of_retries() {
    let back = Upstream::new();
    let with = |retry: &str| route(&[&back], &format!("retry = {{ {retry} }}"));
    let share = "times = 1, budget = 0.01";
    let fixture = Fixture::new(&with(share));
    // What a route may repeat from the start.
    for _ in 0..3 {
        fixture.fails(&back, 2);
    }
    fixture.fails(&back, 1);
    for retry in [share, "times = 2, budget = 0.01"] {
        fixture.reload(&with(retry));
        fixture.fails(&back, 1);
    }
    // Another share is another budget.
    let retry = "times = 1, budget = 0.02";
    fixture.reload(&with(retry));
    fixture.fails(&back, 2);
}

#[test]
fn removed_routes_free_their_commands() {
    let (back, fixture) = Fixture::of("");
    for round in 0..20 {
        let other = route(&[&back], "").replace("route.shop", &format!("route.r{round}"));
        fixture.reload(&other);
        assert_eq!(fixture.isolation.len(), 1);
    }
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing() {
    let (back, fixture) = Fixture::of("");
    let broken = format!(
        "{}[route.files]\npath = \"/f/*\"\nfiles = \"/does/not/exist\"\n",
        route(&[&back], "limit = 1")
    );
    let why = fixture.reload_fails(&broken);
    begins(&why, "route.files: ");
    has(&why, ["/does/not/exist"]);
    let (mut client, mut server) = serve_first(&fixture, &back);
    client.write(&GET.replace("/a", "/f/x"));
    server.message();
    let _second = fixture.send(GET);
    // It stays open: the request would fail with it.
    let _other = back.accept_asked();
    assert_eq!(fixture.active(), 2, "the old limit");
}

#[test]
fn listeners_come_and_go() {
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    let address = fixture.address();
    let more = "[listen.more]\nat = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n";
    fixture.reload(more);
    let all = fixture.gateway.addresses();
    assert_eq!((all.len(), all[0].1.as_str()), (2, address.as_str()));
    let mut client = fixture.connect(&all[1].1);
    client.write(GET);
    assert_eq!(client.message().status(), "200");
    fixture.reload("[route.r]\nrespond = 200\n");
    // An idle connection of a listener that is gone ends.
    assert_eq!(client.rest(), "");
    assert_eq!(fixture.gateway.addresses().len(), 1);
}

/// Returns a listener with these settings besides that of `config`, and a route.
fn more(name: &str, settings: &str) -> Config {
    config(&format!(
        "[listen.{name}]\nat = \"127.0.0.1:0\"\n{settings}\n[route.r]\nrespond = 200\n"
    ))
}

#[test]
fn a_listener_with_other_settings_keeps_its_socket_and_its_connections() {
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    let reload = |new: Config| assert_eq!(fixture.gateway.reload(new).unwrap(), [""; 0]);
    reload(more("more", ""));
    let addresses = fixture.gateway.addresses();
    let mut old = connect(&fixture, "more");
    old.write(GET);
    assert_eq!(old.message().status(), "200");
    reload(more(
        "more",
        "proxy_protocol = true\ntrust = [\"127.0.0.0/8\"]",
    ));
    assert_eq!(fixture.gateway.addresses(), addresses);
    let mut plain = connect(&fixture, "more");
    plain.write(GET);
    assert_eq!(plain.rest(), "", "without the header of the new settings");
    let mut new = connect(&fixture, "more");
    new.write(&format!("PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n{GET}"));
    assert_eq!(new.message().status(), "200");
    old.write(GET);
    assert_eq!(old.message().status(), "200", "under the old settings");
    // With another name it keeps its socket, too.
    reload(more("other", ""));
    let names = |all: Vec<(String, String)>| all.into_iter().map(|(name, _)| name);
    assert_eq!(fixture.gateway.addresses()[1].1, addresses[1].1);
    assert!(names(fixture.gateway.addresses()).eq(["http", "other"]));
    for client in [&mut old, &mut new, &mut connect(&fixture, "other")] {
        client.write(GET);
        assert_eq!(client.message().status(), "200");
    }
    // A drain ends the connections of all of them.
    let drained = fixture.gateway.drain(Duration::ZERO, PATIENCE);
    assert_eq!((old.rest(), new.rest()), (String::new(), String::new()));
    assert_eq!(drained.wait().unwrap().cut, 0);
}

#[test]
fn a_listener_moves_to_another_address() {
    let fixture = Fixture::new("[listen.more]\nat = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n");
    let mut old = connect(&fixture, "more");
    old.write(GET);
    assert_eq!(old.message().status(), "200");
    let moved = "[listen.more]\nat = \"127.0.0.2:0\"\n[route.r]\nrespond = 200\n";
    assert_eq!(fixture.reload(moved), [""; 0]);
    assert!(fixture.gateway.addresses()[1].1.starts_with("127.0.0.2:"));
    assert_eq!(old.rest(), "", "it ends as that of a listener that is gone");
    let mut new = connect(&fixture, "more");
    new.write(GET);
    assert_eq!(new.message().status(), "200");
}

#[test]
fn a_unix_socket_stays_until_its_last_listener_is_gone() {
    let path = std::env::temp_dir().join(format!("tidegate-changes-{}", std::process::id()));
    let text = |settings: &str| {
        config(&format!(
            "[listen.local]\nat = \"unix:{}\"\n{settings}\n[route.r]\nrespond = 200\n",
            path.display()
        ))
    };
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    for settings in ["", "limits = { fields = 9 }", "limits = { fields = 8 }"] {
        fixture.gateway.reload(text(settings)).unwrap();
        let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        client.write_all(GET.as_bytes()).unwrap();
        let mut start = [0; 12];
        client.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
    }
    let without = config("[route.r]\nrespond = 200\n");
    fixture.gateway.reload(without).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_unix_listener_replaces_no_file_neither_at_the_start_nor_by_a_reload() {
    let path = std::env::temp_dir().join(format!("tidegate-precious-{}", std::process::id()));
    std::fs::write(&path, "precious").unwrap();
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    let text = || {
        let at = path.display();
        config(&format!(
            "local = \"unix:{at}\"\n[route.r]\nrespond = 404\n"
        ))
    };
    let group = NetGroup::builder("gateway").loops(1).build().unwrap();
    let started = Gateway::start(text(), &group, &Isolation::builder().build().unwrap());
    let reloaded = fixture.gateway.reload(text());
    for why in [started.map(drop), reloaded.map(drop)] {
        let why = why.unwrap_err().to_string();
        let at = format!("listen.local: cannot listen on unix:{}: ", path.display());
        begins(&why, &at);
        has(&why, ["a regular file is there"]);
        assert!(why.ends_with("move it away, or set another path"), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(fixture.send(GET).message().status(), "200", "the old one");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn nobody_is_refused_while_the_settings_of_a_listener_change() {
    let fixture = Fixture::new("[listen.more]\nat = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n");
    let ends = std::sync::atomic::AtomicBool::new(false);
    let ends = &ends;
    let address = fixture.gateway.addresses()[1].1.clone();
    std::thread::scope(|scope| {
        let client = || {
            let mut served = 0;
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                let mut client = fixture.connect(&address);
                client.write(GET);
                assert_eq!(client.message().status(), "200");
                served += 1;
            }
            served
        };
        let clients = [scope.spawn(client), scope.spawn(client)];
        for round in 0..50 {
            let limits = format!("limits = {{ fields = {} }}", 20 + round % 2);
            fixture.gateway.reload(more("more", &limits)).unwrap();
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
}
