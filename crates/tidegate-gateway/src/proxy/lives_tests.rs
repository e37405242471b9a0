//! Nothing of an old configuration stays when its requests have ended: neither the configuration, nor
//! upstreams that were changed or removed, nor the lookups of their names, nor their connections, nor
//! commands.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidegate::ManualClock;
use tidegate::http::HttpServer;
use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate::promise::Promise;
use tidegate_net::internal::{LocalListener, LocalNetwork, LocalSocket};
use tidegate_testkit::until;

use super::upstream::UpstreamState;
use super::{Draft, Front, Gate, Live, Lives, ProxyService};
use crate::config::Config;
use crate::config::tests::config_of;
use crate::parts::Parts;
use crate::resolver::Resolver;
use crate::tls::TlsFiles;

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(30);
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn config(text: &str) -> Config {
    config_of(&format!("[listen]\nhttp = \"127.0.0.1:0\"\n{text}"))
}

/// Reads a head, to its empty line.
fn read_head(stream: &mut LocalSocket) -> String {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    String::from_utf8(got).unwrap()
}

/// Returns a connection that does not wait for ever.
fn patient(stream: LocalSocket) -> LocalSocket {
    stream.set_timeout(Some(PATIENCE));
    stream
}

fn draft(config: Config, before: Option<&Live>, on: (&Arc<Gate>, &Parts)) -> Draft {
    let tls = TlsFiles::read(&config, |_| None, std::time::SystemTime::UNIX_EPOCH);
    Draft::new(config, before, &tls, on).unwrap()
}

/// The parts of a gateway that a reload replaces, and two loops.
struct World {
    parts: Parts,
    gate: Arc<Gate>,
    lives: Arc<Lives>,
    live: Arc<Live>,
    network: LocalNetwork,
    server: HttpServer,
    clock: ManualClock,
    /// The lookups that have no answer.
    open: Arc<Mutex<Vec<Promise<Vec<SocketAddr>>>>>,
}

/// What was in force before a reload.
struct Old {
    live: Weak<Live>,
    upstreams: Vec<Weak<UpstreamState>>,
}

impl Old {
    fn is_gone(&self) -> bool {
        self.live.strong_count() == 0 && self.are_upstreams_gone()
    }

    fn are_upstreams_gone(&self) -> bool {
        self.upstreams.iter().all(|one| one.strong_count() == 0)
    }
}

impl World {
    fn new(network: &LocalNetwork, text: &str) -> Self {
        let clock = ManualClock::new();
        let group = NetGroup::builder("lives").loops(2).clock(&clock);
        let group = group.local_network(network);
        let group = group.build().unwrap();
        let isolation = Isolation::builder().clock(&clock).build().unwrap();
        let mut parts = Parts::new(&group, &isolation);
        let open = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&open);
        parts.resolver = Resolver::new(move |_, _| {
            let (promise, completion) = tidegate::promise::promise();
            own.lock().unwrap().push(promise);
            completion
        });
        let gate = Gate::new(&group, &parts.reports);
        let live = draft(config(text), None, (&gate, &parts)).apply(&isolation);
        let lives = Lives::new(&gate, &live);
        let front = Arc::new(Front {
            trust: Vec::new(),
            secure: false,
            proxied: false,
            most_body: u64::MAX,
        });
        let own = Arc::clone(&lives);
        let service = move || ProxyService::new(&own, &front);
        let server = HttpServer::builder(&group).serve_with("127.0.0.1:0", service);
        Self {
            network: network.clone(),
            server: server.wait().unwrap(),
            parts,
            gate,
            lives,
            live,
            clock,
            open,
        }
    }

    /// Prepares another configuration, as a reload does.
    fn draft(&self, config: Config) -> Draft {
        draft(config, Some(&self.live), (&self.gate, &self.parts))
    }

    /// Puts another configuration in force, as a reload does.
    fn reload(&mut self, text: &str) -> Old {
        let live = self.draft(config(text)).apply(&self.parts.isolation);
        let old = std::mem::replace(&mut self.live, live);
        self.lives.replace(&self.live);
        self.live.begin(Some(&old));
        let kept = self.live.upstreams.values();
        let kept: Vec<_> = kept.map(Arc::as_ptr).collect();
        let upstreams = old.upstreams.values().map(Arc::downgrade);
        Old {
            live: Arc::downgrade(&old),
            upstreams: upstreams
                .filter(|one| !kept.contains(&one.as_ptr()))
                .collect(),
        }
    }

    /// Begins a request, and returns both of its ends.
    fn begin(&self, back: &LocalListener) -> (LocalSocket, LocalSocket) {
        let client = self.network.connect(self.server.local_addr()).unwrap();
        let mut client = patient(client);
        client.write_all(GET).unwrap();
        let mut server = patient(back.accept(Some(PATIENCE)).unwrap());
        assert!(read_head(&mut server).starts_with("GET /a "));
        (client, server)
    }

    fn commands(&self) -> usize {
        self.parts.isolation.snapshots().len()
    }
}

/// Returns a route to an upstream of this name. Each weight is another upstream.
fn text(name: &str, back: &LocalListener, weight: usize) -> String {
    let at = back.local_addr();
    format!(
        "[upstream.{name}]\nservers = {{ at = \"{at}\", weight = {weight} }}\n\
         [route.{name}]\nupstream = \"{name}\"\n"
    )
}

#[test]
fn an_old_configuration_ends_with_its_last_request() {
    let network = LocalNetwork::new();
    let back = network.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut world = World::new(&network, &text("back", &back, 1));
    let (mut client, mut server) = world.begin(&back);
    let first = world.reload(&text("back", &back, 2));
    // Those between were never used, or by requests that have ended.
    let mut between = Vec::new();
    for weight in 3..20 {
        between.push(world.reload(&text("back", &back, weight)));
    }
    until("no old one is left", || between.iter().all(Old::is_gone));
    assert!(!first.are_upstreams_gone(), "it has a request");
    server.write_all(OK).unwrap();
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 "));
    client.read_exact(&mut [0; 2]).unwrap();
    until("the first one is gone, too", || first.is_gone());
    assert_eq!(world.commands(), 1);
}

#[test]
fn removed_upstreams_and_names_leave_nothing() {
    let network = LocalNetwork::new();
    let back = network.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (one, respond) = (text("one", &back, 1), "[route.last]\nrespond = 200\n");
    let named = one
        .replace("127.0.0.1:", "shop.test:")
        .replace("one", "named");
    let named = named.replace("[route.named]\n", "[route.named]\npath = \"/named\"\n");
    let mut world = World::new(&network, &(one + &named));
    assert_eq!((world.commands(), world.open.lock().unwrap().len()), (2, 1));
    // A connection of the upstream is idle, a name is looked up and has no answer.
    let (mut client, mut server) = world.begin(&back);
    server.write_all(OK).unwrap();
    read_head(&mut client);
    client.read_exact(&mut [0; 2]).unwrap();
    let old = world.reload(respond);
    assert_eq!(old.upstreams.len(), 2);
    until("nothing is left", || old.is_gone());
    assert_eq!(world.commands(), 0);
    // Its connection is closed.
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    // The timers of its names find nothing, and plan no further lookup.
    world.open.lock().unwrap().clear();
    for _ in 0..10 {
        world.clock.advance(Duration::from_secs(60));
        for one in world.parts.group.loops().iter() {
            one.submit(|| ()).unwrap().wait().unwrap();
        }
    }
    assert!(world.open.lock().unwrap().is_empty());
}

/// The routes, commands and upstreams of ten thousand, of which a reload changes one.
#[test]
fn a_reload_touches_the_routes_that_have_changed_and_no_others() {
    const MANY: usize = 10_000;
    let network = LocalNetwork::new();
    let back = network.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let world = World::new(&network, &text("back", &back, 1));
    let one = config(&text("back", &back, 1));
    let mut many = one.clone();
    many.routes = (0..MANY)
        .map(|number| {
            let mut route = one.routes[0].clone();
            route.name = format!("r{number}");
            route
        })
        .collect();
    let on = (&world.gate, &world.parts);
    let first = draft(many.clone(), Some(&world.live), on).apply(&world.parts.isolation);
    assert_eq!(world.commands(), MANY);
    let touched = |config: &Config| {
        let next = draft(config.clone(), Some(&first), on);
        let routes = next.live().routes.iter().zip(&first.routes);
        let other = routes.filter(|(new, old)| !Arc::ptr_eq(new, old));
        (other.count(), next.changes.len())
    };
    assert_eq!(touched(&many), (0, 0));
    many.routes[MANY / 2].value.server_timing = true;
    assert_eq!(touched(&many), (1, 0), "its command stays");
    many.routes[MANY / 2].value.limit.max.0 = 7;
    assert_eq!(touched(&many), (1, 1));
    // All routes share the upstream, and what is logged.
    let mut other = many.clone();
    other.upstreams[0].value.idle = Duration::from_secs(9);
    assert_eq!(touched(&other), (MANY, 1));
    many.log.query = true;
    assert_eq!(touched(&many), (MANY, 1));
}
