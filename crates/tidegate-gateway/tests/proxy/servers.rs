//! Servers whose settings change: what counts and what is known about them stays.

use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::*;

/// Returns the settings of an upstream with these servers, and a route to it.
fn text(servers: &str, settings: &str) -> String {
    format!(
        "[upstream.back]\nservers = [{servers}]\nbalance = \"round_robin\"\n{settings}\n\
         [route.shop]\nupstream = \"back\"\n"
    )
}

fn weighted(server: &Upstream, weight: u32) -> String {
    format!("{{ at = \"{}\", weight = {weight} }}", server.address())
}

/// Sends a request that the server reads and does not answer.
fn hold(fixture: &Fixture, server: &Upstream) -> (Peer, Peer) {
    fixture.open(GET, server)
}

fn is_refused(fixture: &Fixture) -> bool {
    let response = fixture.send(GET).message();
    response.field("tidegate-refused") == Some("no_server shop")
}

fn reload(fixture: &Fixture, text: &str) {
    assert_eq!(fixture.reload(text), [""; 0]);
}

#[test]
fn requests_in_flight_count_after_the_weight_or_the_limit_has_changed() {
    for (weight, most, places) in [(3, 2, 0), (1, 3, 1), (2, 4, 2), (1, 1, 0)] {
        let back = Upstream::new();
        let with = |weight, most| {
            let limit = format!("max_in_flight = {most}");
            text(&weighted(&back, weight), &limit)
        };
        let fixture = Fixture::new(&with(1, 2));
        let mut all = vec![hold(&fixture, &back), hold(&fixture, &back)];
        assert!(is_refused(&fixture), "both places are taken");
        reload(&fixture, &with(weight, most));
        assert_eq!(fixture.in_flight(), [2], "weight {weight}, limit {most}");
        all.extend((0..places).map(|_| hold(&fixture, &back)));
        assert!(is_refused(&fixture), "weight {weight}, limit {most}");
        for (client, server) in &mut all {
            server.answer(client);
        }
        fixture.wait_idle();
        assert_eq!(fixture.in_flight(), [0]);
        // The connection that was returned last.
        let mut server = all.pop().unwrap().1;
        let mut client = fixture.send(GET);
        server.serve_ok(&mut client);
        assert!(back.is_quiet(), "the connections have stayed");
    }
}

#[test]
fn a_limit_that_is_removed_comes_back_with_the_requests_that_have_begun_meanwhile() {
    let back = Upstream::new();
    let (servers, limit) = (weighted(&back, 1), "max_in_flight = 1");
    let fixture = Fixture::new(&text(&servers, limit));
    let mut all = vec![hold(&fixture, &back)];
    reload(&fixture, &text(&servers, ""));
    all.extend([hold(&fixture, &back), hold(&fixture, &back)]);
    reload(&fixture, &text(&servers, limit));
    assert_eq!(fixture.in_flight(), [3]);
    for (mut client, mut server) in all {
        assert!(is_refused(&fixture));
        server.write(OK_CLOSE);
        assert_eq!(client.message().body, "ok");
        tidegate_testkit::until("its place is free", || fixture.in_flight()[0] < 3);
    }
    fixture.wait_idle();
    drop(hold(&fixture, &back));
}

#[test]
fn a_reload_that_is_refused_changes_no_limit() {
    let back = Upstream::new();
    let servers = weighted(&back, 1);
    let fixture = Fixture::new(&text(&servers, "max_in_flight = 1"));
    let broken = format!(
        "{}[route.files]\npath = \"/f/*\"\nfiles = \"/does/not/exist\"\n",
        text(&servers, "max_in_flight = 9")
    );
    fixture.reload_fails(&broken);
    let _held = hold(&fixture, &back);
    assert!(is_refused(&fixture));
}

#[test]
fn a_server_keeps_its_requests_wherever_it_is_in_the_list() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let limit = "max_in_flight = 1";
    let list = |all: &[&Upstream]| {
        let all: Vec<String> = all.iter().map(|server| weighted(server, 1)).collect();
        text(&all.join(", "), limit)
    };
    let fixture = Fixture::new(&list(&[&one, &two]));
    let (mut client, mut server) = hold(&fixture, &one);
    reload(&fixture, &list(&[&two, &one]));
    assert_eq!(fixture.in_flight(), [0, 1]);
    let _second = hold(&fixture, &two);
    assert!(is_refused(&fixture));
    // It is removed while its request is in flight, and comes back.
    reload(&fixture, &list(&[&two]));
    reload(&fixture, &list(&[&one, &two]));
    assert_eq!(fixture.in_flight(), [1, 1]);
    assert!(is_refused(&fixture));
    server.answer(&mut client);
    tidegate_testkit::until("its place is free", || fixture.in_flight() == [0, 1]);
}

#[test]
fn a_server_that_is_in_the_list_twice_stays_two() {
    let back = Upstream::new();
    let twice = |weight| format!("{}, {}", weighted(&back, 1), weighted(&back, weight));
    let limit = "max_in_flight = 1";
    let fixture = Fixture::new(&text(&twice(1), limit));
    let all = [hold(&fixture, &back), hold(&fixture, &back)];
    for weight in [2, 1] {
        reload(&fixture, &text(&twice(weight), limit));
        assert_eq!(fixture.in_flight(), [1, 1]);
        assert!(is_refused(&fixture));
    }
    reload(&fixture, &text(&twice(1), "max_in_flight = 2"));
    let more = [hold(&fixture, &back), hold(&fixture, &back)];
    assert_eq!(fixture.in_flight(), [2, 2]);
    assert!(is_refused(&fixture));
    drop((all, more));
}

#[test]
fn a_drained_server_stays_so_with_another_weight_or_limit() {
    let back = Upstream::new();
    let with = |weight, most| {
        let limit = format!("max_in_flight = {most}");
        text(&weighted(&back, weight), &limit)
    };
    let fixture = Fixture::new(&with(1, 5));
    let name = back.address();
    assert!(fixture.gateway.drain_server("back", &name, true));
    for (weight, most) in [(2, 5), (2, 1)] {
        reload(&fixture, &with(weight, most));
        let server = &fixture.gateway.upstreams()[0].servers[0];
        assert_eq!((server.is_draining, server.weight), (true, weight));
        assert!(is_refused(&fixture));
    }
    assert!(fixture.gateway.drain_server("back", &name, false));
    drop(hold(&fixture, &back));
}

/// The default of `idle` is longer.
#[test]
fn a_connection_without_a_request_is_kept_for_the_time_of_its_upstream() {
    let back = Upstream::new();
    let text = route(&[&back], "").replace("balance", "idle = \"10s\"\nbalance");
    let fixture = Fixture::new(&text);
    let (mut client, mut server) = serve_first(&fixture, &back);
    fixture.wait_idle();
    for _ in 0..3 {
        fixture.clock.advance(Duration::from_secs(6));
        client.write(GET);
        server.serve(OK);
        assert_eq!(client.message().body, "ok", "the connection was kept");
        fixture.wait_idle();
    }
    fixture.in_one_turn(|| ());
    fixture.clock.advance(Duration::from_secs(11));
    assert_eq!(server.rest(), "", "it is closed");
    client.write(GET);
    back.accept().serve_ok(&mut client);
}

/// Returns the connections of a server on which a request has come, as it comes.
fn requests(back: Upstream) -> Receiver<Peer> {
    let (sender, requests) = mpsc::channel();
    let accept = move || {
        while let Ok(stream) = back.0.accept() {
            let sender = sender.clone();
            let read = move || {
                // The head ends before the test responds, and nothing else comes before that.
                let mut bytes = [0; 1 << 12];
                let mut peer = Peer(stream);
                let mut head = Vec::new();
                while let Ok(count @ 1..) = peer.0.read(&mut bytes) {
                    head.extend_from_slice(&bytes[..count]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let _ = sender.send(Peer(peer.0.another()));
                    }
                }
            };
            thread::Builder::new().spawn(read).unwrap();
        }
    };
    thread::Builder::new().spawn(accept).unwrap();
    requests
}

#[test]
fn a_server_gets_as_many_requests_as_its_limit_says_over_all_loops() {
    const MOST: usize = 3;
    let back = Upstream::new();
    let limit = format!("max_in_flight = {MOST}");
    let text = text(&weighted(&back, 1), &limit) + "limit = 100\n";
    let fixture = Fixture::with_loops(&text, 4);
    let requests = requests(back);
    let mut clients: Vec<Peer> = (0..12).map(|_| fixture.client()).collect();
    for round in 0..30 {
        for client in &mut clients {
            client.write(GET);
        }
        let next = || requests.recv_timeout(PATIENCE).unwrap();
        let mut held: Vec<Peer> = (0..MOST).map(|_| next()).collect();
        let mut waiting: Vec<&mut Peer> = clients.iter_mut().collect();
        while waiting.len() > MOST {
            let all: Vec<&Peer> = waiting.iter().map(|client| &**client).collect();
            let refused = waiting.swap_remove(first_readable(&all)).message();
            let reason = refused.field("tidegate-refused");
            assert_eq!(reason, Some("no_server shop"), "round {round}");
        }
        assert!(requests.try_recv().is_err(), "round {round}");
        assert_eq!(fixture.in_flight(), [MOST]);
        for server in &mut held {
            server.write(OK);
        }
        for client in waiting {
            assert_eq!(client.message().body, "ok", "round {round}");
        }
        tidegate_testkit::until("its places are free", || fixture.in_flight() == [0]);
    }
}
