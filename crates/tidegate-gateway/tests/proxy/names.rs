//! Servers that have a name: one server for each of its addresses.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::promise::{Completion, Failure, Promise, promise};
use tidegate_gateway::Resolver;

use tidegate_testkit::has;

use crate::logs::shows;
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
    let one = Upstream::new();
    let two = Upstream::at(&format!("127.0.0.2:{}", one.0.local_addr().port()));
    (one, two)
}

fn text(port: u16, settings: &str) -> String {
    operated(&format!(
        "[upstream.back]\nservers = \"shop.test:{port}\"\nbalance = \"round_robin\"\n\
         resolve_every = \"10s\"\n{settings}\n[route.shop]\nupstream = \"back\"\ntimeout = false\n"
    ))
}

impl Named {
    fn new() -> Self {
        Self::with(true, |one, _| text(address(one).port(), ""))
    }

    /// Makes a gateway with this configuration. The name stands for both servers, or is not found.
    fn with(found: bool, text: impl Fn(&Upstream, &Upstream) -> String) -> Self {
        let (one, two) = two_servers();
        let answer = Answer::default();
        let own = Arc::clone(&answer);
        let resolver = Resolver::new(move |host, _| {
            assert_eq!(host, "shop.test");
            match own.lock().unwrap().clone() {
                Some(found) => Completion::succeeded(found),
                None => Completion::failed(Failure::new("no such name")),
            }
        });
        *answer.lock().unwrap() = found.then(|| vec![address(&one), address(&two)]);
        let world = World::with_resolver(text(&one, &two), resolver);
        Self {
            one,
            two,
            answer,
            world,
        }
    }

    /// Returns the servers and the gateway.
    fn parts(&self) -> (&Upstream, &Upstream, &World) {
        (&self.one, &self.two, &self.world)
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
            self.world.served_by(server);
        }
        assert!(self.one.is_quiet() && self.two.is_quiet());
    }
}

fn address(server: &Upstream) -> SocketAddr {
    server.0.local_addr()
}

#[test]
fn each_address_of_a_name_is_a_server() {
    let named = Named::new();
    let (one, two, _) = named.parts();
    named.reaches(&[one, two, one, two]);
    let port = address(one).port();
    let snapshot = named.world.get("/api/snapshot").body;
    has(
        &snapshot,
        [
            format!("\"address\":\"shop.test:{port}@127.0.0.1\""),
            format!("\"address\":\"shop.test:{port}@127.0.0.2\""),
        ],
    );
}

#[test]
fn a_name_is_looked_up_again_and_one_that_fails_keeps_its_addresses() {
    let named = Named::new();
    let (one, two, _) = named.parts();
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    assert_eq!(named.world.last_change().0, "resolver");
    named.reaches(&[two, two]);
    // The name is not found: nothing changes.
    *named.answer.lock().unwrap() = None;
    named.world.pass_seconds(30);
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
    let (one, two, _) = named.parts();
    let (mut client, mut server) = named.world.open(GET, one);
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    named.reaches(&[two]);
    server.answer(&mut client);
    assert_eq!(server.rest(), "", "the connection is not used again");
}

#[test]
fn a_drained_name_stays_drained_with_new_addresses() {
    let named = Named::new();
    let (one, two, world) = named.parts();
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
    world.refusal(GET, "no_server shop");
    assert_eq!(order(&format!("{name}@127.0.0.2"), "resume"), "200");
    named.reaches(&[two, two]);
    // Other settings of the upstream, the same addresses.
    world.reload("test", &text(port, "max_in_flight = 5"));
    named.reaches(&[two, two]);
}

#[test]
fn requests_in_flight_count_after_the_name_has_got_another_address() {
    let named = Named::new();
    let Named { one, world, .. } = &named;
    named.change(Some(vec![address(one)]), ": 127.0.0.1");
    let port = address(one).port();
    let reload = |settings: &str| {
        world.reload("test", &text(port, settings));
    };
    reload("max_in_flight = 1");
    let is_refused = || {
        world.refusal(GET, "no_server shop");
    };
    let (mut client, mut server) = world.open(GET, one);
    is_refused();
    // Another way to the same server.
    let six = SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), port);
    named.change(Some(vec![address(one), six]), ": 127.0.0.1, ::1");
    is_refused();
    reload("max_in_flight = 1\nidle = \"7s\"");
    is_refused();
    server.answer(&mut client);
    assert_eq!(server.rest(), "", "new requests get other connections");
    named.reaches(&[one, one]);
}

/// Requests that have begun keep the old settings for long.
#[test]
fn old_settings_look_up_no_names() {
    let named = Named::new();
    let (one, two, world) = named.parts();
    named.change(Some(vec![address(one)]), ": 127.0.0.1");
    let (mut client, mut server) = world.open(GET, one);
    let port = address(one).port();
    let new = text(port, "max_in_flight = 9");
    world.reload("test", &new);
    let changes = || world.parts.reports.events.latest();
    let before = changes().len();
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    // More than one time between two lookups of the old ones.
    world.pass_seconds(30);
    named.reaches(&[two]);
    assert_eq!(changes().len(), before + 1, "{:?}", changes());
    server.answer(&mut client);
}

#[test]
fn a_name_is_not_looked_up_for_an_upstream_that_is_gone() {
    let named = Named::new();
    let (one, two, world) = named.parts();
    let (mut client, mut server) = world.open(GET, one);
    let without = operated("[route.r]\nrespond = 200\n");
    world.reload("test", &without);
    *named.answer.lock().unwrap() = Some(vec![address(two)]);
    for _ in 0..30 {
        world.clock.advance(Duration::from_secs(1));
        world.pass_the_loop();
    }
    assert_eq!(world.last_change().1, "reload");
    server.answer(&mut client);
}

#[test]
fn an_address_that_its_name_has_lost_is_not_checked_although_a_request_is_in_flight() {
    let health = "health = { kind = \"tcp\", every = \"100s\", timeout = \"90s\" }";
    let named = Named::with(true, |one, _| text(address(one).port(), health));
    let (one, two, world) = named.parts();
    let (mut client, mut server) = world.open(GET, one);
    world.clock.advance(Duration::from_millis(200));
    assert_eq!(one.accept().rest(), "", "it is checked");
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    world.clock.advance(Duration::from_secs(300));
    world.pass_the_loop();
    assert!(one.is_quiet());
    server.answer(&mut client);
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
    back.accept().serve_ok(&mut client);
    world.pass_seconds(5);
    assert_eq!(world.get("/api/snapshot").status(), "200");
    drop(never);
}

/// Returns a resolver whose first lookup hangs. Later ones find nothing.
fn hanging() -> (Promise<Vec<SocketAddr>>, Resolver) {
    let (found, hangs) = promise::<Vec<SocketAddr>>();
    let hangs = Mutex::new(Some(hangs));
    let resolver = Resolver::new(move |_, _| {
        let first = hangs.lock().unwrap().take();
        first.unwrap_or_else(|| Completion::failed(Failure::new("no such name")))
    });
    (found, resolver)
}

/// A gateway whose only server has a name, and the promise of the name's first lookup. Later lookups find
/// nothing.
struct Awaited {
    back: Upstream,
    found: Promise<Vec<SocketAddr>>,
    world: World,
}

impl Awaited {
    /// The operating system knows the name, but only the resolver of the gateway is asked.
    fn new(route: &str) -> Self {
        let back = Upstream::new();
        let (found, resolver) = hanging();
        let text = text(address(&back).port(), "").replace("shop.test", "localhost");
        let world = World::with_resolver(format!("{text}{route}"), resolver);
        Self { back, found, world }
    }

    /// Sends a request and waits until it is in flight.
    fn send(&self, request: &str) -> Peer {
        let client = self.world.send(request);
        let servers = || self.world.operation.gateway().upstreams().remove(0).servers;
        // It is admitted before.
        let has_server = || servers().iter().any(|server| server.in_flight > 0);
        tidegate_testkit::until("the request waits for the lookup", has_server);
        client
    }
}

const CONNECT: &str = "CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n";
const TUNNEL: &str = "tunnel = { connect = true }\nmethod = [\"GET\", \"CONNECT\"]\n";

#[test]
fn requests_wait_for_the_first_lookup_of_their_only_name() {
    let awaited = Awaited::new("");
    let mut client = awaited.send(GET);
    let found = vec![address(&awaited.back)];
    assert!(awaited.found.succeed(found).is_ok());
    awaited.back.accept().serve_last(&mut client);
}

#[test]
fn requests_wait_for_a_first_lookup_for_connect_timeout_at_most() {
    for request in [GET, CONNECT] {
        let awaited = Awaited::new(TUNNEL);
        let mut client = awaited.send(request);
        // The default.
        awaited.world.clock.advance(Duration::from_millis(1100));
        let failed = client.failure("connect shop");
        assert_eq!(failed.status(), "502");
        assert!(awaited.back.is_quiet(), "the name was looked up elsewhere");
    }
}

#[test]
fn a_client_that_leaves_before_its_tunnel_is_connected_is_logged_as_such() {
    let awaited = Awaited::new(TUNNEL);
    let client = awaited.send(CONNECT);
    drop(client);
    shows(&awaited.world.line(1), "reason=client_left status=0");
    awaited.world.wait_idle();
    assert!(awaited.found.succeed(vec![address(&awaited.back)]).is_ok());
    awaited.world.pass_the_loop();
    assert!(awaited.back.is_quiet(), "nobody waits for the connection");
}

/// Another configuration looks up the name again. The request has begun under the old one.
#[test]
fn a_reload_does_not_prolong_the_wait_for_a_first_lookup() {
    let awaited = Awaited::new("");
    let mut client = awaited.send(GET);
    let port = address(&awaited.back).port();
    let new = text(port, "connect_timeout = \"9s\"").replace("shop.test", "localhost");
    awaited.world.reload("test", &new);
    awaited.world.clock.advance(Duration::from_millis(1100));
    client.failure("connect shop");
}

/// Returns a configuration with the name, and with a server beside it.
fn beside(named: u16, other: &Upstream) -> String {
    let servers = format!("[\"shop.test:{named}\", \"{}\"]", address(other));
    text(named, "").replace(&format!("\"shop.test:{named}\""), &servers)
}

#[test]
fn a_name_that_was_never_found_is_no_server_until_it_is_found() {
    let named = Named::with(false, |one, two| beside(address(one).port(), two));
    let (one, two, world) = named.parts();
    assert!(world.last_change().1.ends_with("the name is not found"));
    named.reaches(&[two, two, two, two]);
    let port = address(one).port();
    let snapshot = world.get("/api/snapshot").body;
    let server = format!("\"address\":\"shop.test:{port}\"");
    let shown = snapshot.split_once(&server).expect("it is shown").1;
    let state = "\"up\":false,\"draining\":false,\"found\":false";
    assert!(shown.split('}').next().unwrap().contains(state), "{shown}");
    let metrics = world.get("/metrics").body;
    let up = format!("tidegate_upstream_up{{upstream=\"back\",server=\"shop.test:{port}\"}} 0");
    has(&metrics, [&up]);
    named.change(Some(vec![address(one)]), ": 127.0.0.1");
    named.reaches(&[one, two, one, two]);
}

#[test]
fn requests_are_refused_if_the_only_name_was_never_found() {
    let named = Named::with(false, |one, _| text(address(one).port(), ""));
    let (one, two, world) = named.parts();
    let is_refused = || {
        let refused = world.refusal(GET, "no_server shop");
        assert_eq!(refused.status(), "503");
    };
    is_refused();
    // Other settings, and still no address.
    let settings = text(address(one).port(), "idle = \"7s\"");
    world.reload("test", &settings);
    is_refused();
    named.change(Some(vec![address(two)]), ": 127.0.0.2");
    named.reaches(&[two, two]);
}

#[test]
fn a_first_lookup_that_hangs_delays_no_request_that_another_server_takes() {
    let (one, two) = two_servers();
    let (found, resolver) = hanging();
    let port = address(&one).port();
    let world = World::with_resolver(beside(port, &two), resolver);
    (0..4).for_each(|_| world.served_by(&two));
    // After `connect_timeout`, nothing waits for it.
    tidegate_testkit::until("the lookup takes too long", || {
        world.clock.advance(Duration::from_secs(1));
        let changes = world.parts.reports.events.latest();
        format!("{changes:?}").contains("the name is not found in time")
    });
    let path = format!("POST /api/servers/back/{}", address(&two));
    let order = |order: &str| world.order(&format!("{path}/{order}"));
    order("drain");
    world.refusal(GET, "no_server shop");
    assert!(found.succeed(vec![address(&one)]).is_ok());
    world.served_by(&one);
    order("resume");
    assert!(two.is_quiet());
}

/// The default is longer.
#[test]
fn a_name_is_looked_up_each_time_that_its_upstream_says() {
    let lookups = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&lookups);
    let resolver = Resolver::new(move |_, port| {
        own.fetch_add(1, Ordering::Relaxed);
        Completion::succeeded(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    });
    let world = World::with_resolver(text(80, ""), resolver);
    let seconds = |seconds: u64| {
        for _ in 0..seconds {
            world.clock.advance(Duration::from_secs(1));
            // Each lookup plans the next one.
            for _ in 0..2 {
                let home = world.parts.group.loops().next();
                home.submit(|| ()).unwrap().wait().unwrap();
            }
        }
        lookups.load(Ordering::Relaxed)
    };
    assert_eq!(seconds(9), 1);
    assert_eq!(seconds(2), 2);
    assert_eq!(seconds(8), 2);
    assert_eq!(seconds(3), 3);
}
