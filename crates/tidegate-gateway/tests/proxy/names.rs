//! Servers that have a name: one server for each of its addresses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidegate::promise::{Completion, Failure, promise};
use tidegate_gateway::Resolver;

use crate::operation::{World, operated};
use crate::*;

/// The addresses that the name has now. `None` means that it is not found.
type Answer = Arc<Mutex<Option<Vec<SocketAddr>>>>;

/// Two servers with the same port, and a gateway that knows them by one name.
struct Named {
    one: Upstream,
    two: Upstream,
    answer: Answer,
    world: World,
}

/// Opens servers on two addresses with one port.
fn two_servers() -> (Upstream, Upstream) {
    tidegate_testkit::until_some("a port is free on both addresses", || {
        let one = Upstream::new();
        let port = one.0.local_addr().unwrap().port();
        let two = TcpListener::bind(("127.0.0.2", port)).ok()?;
        Some((one, Upstream(two)))
    })
}

fn text(port: u16, settings: &str) -> String {
    operated(&format!(
        "[upstream.back]\nservers = \"shop.test:{port}\"\nbalance = \"round_robin\"\n\
         resolve_every = \"10s\"\n{settings}\n[route.shop]\nupstream = \"back\"\n"
    ))
}

impl Named {
    fn new() -> Self {
        let (one, two) = two_servers();
        let port = one.0.local_addr().unwrap().port();
        let answer = Answer::default();
        let own = Arc::clone(&answer);
        let resolver = Resolver::new(move |host, _| {
            assert_eq!(host, "shop.test");
            match own.lock().unwrap().clone() {
                Some(found) => Completion::succeeded(found),
                None => Completion::failed(Failure::new("no such name")),
            }
        });
        *answer.lock().unwrap() = Some(vec![address(&one), address(&two)]);
        let world = World::with_resolver(text(port, ""), resolver);
        Self {
            one,
            two,
            answer,
            world,
        }
    }

    /// Sets what the name stands for, and waits until the gateway has asked.
    fn change(&self, found: Option<Vec<SocketAddr>>, event: &str) {
        *self.answer.lock().unwrap() = found;
        tidegate_testkit::until("the name is looked up", || {
            self.world.clock.advance(Duration::from_secs(1));
            self.world.last_change().1.ends_with(event)
        });
    }

    /// Asserts that requests reach these servers, in turn.
    fn reaches(&self, servers: &[&Upstream]) {
        for server in servers {
            let mut client = self.world.send(GET);
            server.accept().serve(OK_CLOSE);
            assert_eq!(client.message().body, "ok");
        }
        assert!(self.one.is_quiet() && self.two.is_quiet());
    }
}

fn address(server: &Upstream) -> SocketAddr {
    server.0.local_addr().unwrap()
}

#[test]
fn each_address_of_a_name_is_a_server() {
    let named = Named::new();
    let Named { one, two, .. } = &named;
    named.reaches(&[one, two, one, two]);
    let port = address(one).port();
    let snapshot = named.world.get("/api/snapshot").body;
    for server in [
        format!("\"address\":\"shop.test:{port}@127.0.0.1\""),
        format!("\"address\":\"shop.test:{port}@127.0.0.2\""),
    ] {
        assert!(snapshot.contains(&server), "{server}\n{snapshot}");
    }
}

#[test]
fn a_name_is_looked_up_again_and_one_that_fails_keeps_its_addresses() {
    let named = Named::new();
    let Named { one, two, .. } = &named;
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    assert_eq!(named.world.last_change().0, "resolver");
    named.reaches(&[two, two]);
    // The name is not found: nothing changes.
    *named.answer.lock().unwrap() = None;
    for _ in 0..30 {
        named.world.clock.advance(Duration::from_secs(1));
    }
    named.reaches(&[two, two]);
    named.change(
        Some(vec![address(two), address(one)]),
        ": 127.0.0.1, 127.0.0.2",
    );
    named.reaches(&[one, two]);
}

#[test]
fn a_request_in_flight_ends_although_its_address_is_gone() {
    let named = Named::new();
    let Named { one, two, .. } = &named;
    let mut client = named.world.send(GET);
    let mut server = one.accept();
    server.message();
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    named.reaches(&[two]);
    server.write(OK);
    assert_eq!(client.message().body, "ok");
    assert_eq!(server.rest(), "", "the connection is not used again");
}

#[test]
fn a_drained_name_stays_drained_with_new_addresses() {
    let named = Named::new();
    let Named {
        one, two, world, ..
    } = &named;
    named.change(Some(vec![address(one)]), ": 127.0.0.1");
    let port = address(one).port();
    let order = |server: &str, order: &str| {
        let line = format!("POST /api/servers/back/{server}/{order}");
        world.change(&line, "").status().to_owned()
    };
    let name = format!("shop.test:{port}");
    assert_eq!(order(&name, "drain"), "200");
    named.change(
        Some(vec![address(one), address(two)]),
        ": 127.0.0.1, 127.0.0.2",
    );
    let refused = world.send(GET).message();
    assert_eq!(refused.field("tidegate-refused"), Some("no_server shop"));
    assert_eq!(order(&format!("{name}@127.0.0.2"), "resume"), "200");
    named.reaches(&[two, two]);
    // Other settings of the upstream, the same addresses.
    world
        .files
        .write("/tidegate.toml", &text(port, "max_in_flight = 5"));
    world.operation.reload("test").unwrap();
    named.reaches(&[two, two]);
}

#[test]
fn a_lookup_that_hangs_delays_neither_the_start_nor_other_upstreams() {
    let back = Upstream::new();
    let (never, hangs) = promise::<Vec<SocketAddr>>();
    let hangs = Mutex::new(Some(hangs));
    let resolver = Resolver::new(move |_, _| {
        let mut hangs = hangs.lock().unwrap();
        hangs.take().expect("one lookup at a time")
    });
    let text = format!(
        "{}[upstream.slow]\nservers = \"slow.test:80\"\nresolve_every = \"1s\"\n\
         [route.slow]\npath = \"/slow\"\nupstream = \"slow\"\n",
        route(&[&back], "")
    );
    let world = World::with_resolver(operated(&text), resolver);
    let mut client = world.send(GET);
    back.accept().serve(OK);
    assert_eq!(client.message().body, "ok");
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(world.get("/api/snapshot").status(), "200");
    drop(never);
}
