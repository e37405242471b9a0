//! Reloads that fail: everything stays as it was, and a later one succeeds.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use tidegate::isolate::{Command, Properties};
use tidegate_gateway::Parts;
use tidegate_testkit::{Gate, begins, has, lacks};

use crate::moves::port;
use crate::secure::Files;
use crate::steps::no_forks;
use crate::*;

const UPSTREAM: &str = "[upstream.back]\nservers = [\"127.0.0.1:1\"]\n";

/// Returns a configuration with a listener at this address, and these routes.
fn at(address: &str, routes: &str) -> Config {
    config(&format!(
        "[listen.b]\nat = \"{address}\"\n{UPSTREAM}{routes}"
    ))
}

fn passing(name: &str, settings: &str) -> String {
    format!("[route.{name}]\npath = \"/{name}\"\nupstream = \"back\"\n{settings}\n")
}

/// Returns the settings of all commands.
fn settings(isolation: &Isolation) -> Vec<String> {
    let all = isolation.settings().into_iter();
    all.map(|one| format!("{}: {one}", one.command)).collect()
}

#[test]
fn a_reload_that_fails_at_a_listener_changes_no_command() {
    let _alone = no_forks();
    let port = port();
    let (one, all) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    let routes = [
        passing("limited", "limit = 5"),
        passing("timed", ""),
        passing("judged", "breaker = { window = \"4s\" }"),
        passing("gone", "tunnel = {}\nfallback = { upstream = \"back\" }"),
    ];
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let routes = routes.concat();
    fixture.gateway.reload(at(&one, &routes)).unwrap();
    let before = settings(&fixture.isolation);
    let foreign = TcpListener::bind(format!("127.0.0.9:{port}")).unwrap();
    let others = |limit: u32| {
        let new = format!("limit = {limit}\ntunnel = {{}}\nfallback = {{ upstream = \"back\" }}");
        [
            passing("limited", "limit = 7"),
            passing("timed", "retry = { attempt_timeout = \"10ms\" }"),
            passing("judged", "breaker = { window = \"8s\" }"),
            passing("new", &new),
        ]
        .concat()
    };
    let why = fixture.gateway.reload(at(&all, &others(3))).unwrap_err();
    has(why.to_string(), ["in use"]);
    assert_eq!(settings(&fixture.isolation), before);
    drop(foreign);
    fixture.gateway.reload(at(&all, &others(4))).unwrap();
    let now = settings(&fixture.isolation);
    let keys: Vec<&str> = now
        .iter()
        .filter_map(|one| one.split(": ").next())
        .collect();
    let expected = [
        "judged",
        "limited",
        "new",
        "new:fallback",
        "new:tunnel",
        "timed",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn a_reload_that_fails_at_a_command_changes_no_other() {
    let (properties, group) = (
        Properties::new(),
        NetGroup::builder("gateway").loops(1).build().unwrap(),
    );
    let isolation = Isolation::builder().properties(properties.clone());
    let isolation = isolation.build().unwrap();
    let routes = passing("a", "limit = 5");
    let gateway = Gateway::start(at("127.0.0.1:0", &routes), &group, &isolation).unwrap();
    let before = settings(&isolation);
    // No route has threads.
    let strategy = "hystrix.command.z.execution.isolation.strategy";
    properties.set(strategy, "THREAD").unwrap();
    let others = |limit: u32| {
        let changed = format!("limit = {limit}");
        [
            passing("a", &changed),
            passing("m", &changed),
            passing("z", ""),
        ]
        .concat()
    };
    let why = gateway.reload(at("127.0.0.1:0", &others(7))).unwrap_err();
    begins(why.to_string(), "route.z: ");
    assert_eq!(settings(&isolation), before);
    properties.remove(strategy).unwrap();
    gateway.reload(at("127.0.0.1:0", &others(8))).unwrap();
    assert_eq!(isolation.len(), 3);
}

/// The key of a later route is taken, which nothing but making its command finds out.
#[test]
fn a_reload_that_fails_at_a_later_command_leaves_the_earlier_ones_their_settings() {
    let group = NetGroup::builder("gateway").loops(1).build().unwrap();
    let isolation = Isolation::builder().build().unwrap();
    let own = Command::<(), Infallible>::builder("z")
        .group("own")
        .permits(1);
    let own = own.build(&isolation).unwrap();
    let all = |limit: u32, window: u32| {
        let judged = format!("breaker = {{ window = \"{window}s\" }}");
        [
            passing("a", &format!("limit = {limit}")),
            passing("judged", &judged),
            passing("tunnels", &format!("tunnel = {{ max = {limit} }}")),
        ]
        .concat()
    };
    let gateway = Gateway::start(at("127.0.0.1:0", &all(5, 4)), &group, &isolation).unwrap();
    let before = settings(&isolation);
    let others = format!("{}{}", all(7, 8), passing("z", ""));
    let why = gateway.reload(at("127.0.0.1:0", &others)).unwrap_err();
    begins(why.to_string(), "route.z: ");
    has(why.to_string(), ["built differently"]);
    assert_eq!(settings(&isolation), before);
    let whole = Isolation::builder().build().unwrap();
    Gateway::start(at("127.0.0.1:0", &others), &group, &whole).unwrap();
    assert!(isolation.remove(own.key().as_str()));
    gateway.reload(at("127.0.0.1:0", &others)).unwrap();
    assert_eq!(settings(&isolation), settings(&whole), "as after a start");
}

#[test]
fn a_start_that_fails_leaves_no_command() {
    let group = NetGroup::builder("gateway").loops(1).build().unwrap();
    let isolation = Isolation::builder().build().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let start = |at: Config| Gateway::start(at, &group, &isolation);
    let why = start(at(&address, &passing("a", "limit = 5"))).unwrap_err();
    has(why.to_string(), ["in use"]);
    assert!(isolation.is_empty());
    start(at("127.0.0.1:0", &passing("a", "limit = 6"))).unwrap();
}

/// The clock on the wall asks a thread to wait, once.
fn stops_once(begun: &Gate, go_on: &Gate) -> impl Fn() -> SystemTime + Send + Sync + use<> {
    let (begun, go_on, is_first) = (begun.clone(), go_on.clone(), AtomicBool::new(true));
    move || {
        let name = std::thread::current().name().map(str::to_owned);
        if name.as_deref() == Some("reload") && is_first.swap(false, Ordering::SeqCst) {
            begun.open();
            go_on.wait();
        }
        SystemTime::UNIX_EPOCH
    }
}

#[test]
fn a_drain_that_begins_while_files_are_read_changes_nothing_of_them() {
    let _alone = no_forks();
    let (clock, port) = (ManualClock::new(), port());
    let group = group("gateway", 1, Wires::Sockets, &clock);
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let mut parts = Parts::new(&group, &isolation);
    let (begun, go_on) = (Gate::new(), Gate::new());
    parts.reports.wall = Arc::new(stops_once(&begun, &go_on));
    let own = |at: &str, routes: &str| {
        config(&format!(
            "[listen.b]\nat = \"{at}:{port}\"\n{UPSTREAM}{routes}"
        ))
    };
    let (changes, gone) = (passing("limited", "limit = 5"), passing("gone", ""));
    let first = own("127.0.0.1", &format!("{changes}{gone}"));
    let gateway = Gateway::start_with(first, parts).unwrap();
    let before = settings(&isolation);
    let next = own("0.0.0.0", &passing("limited", "limit = 7"));
    let drained = std::thread::scope(|scope| {
        let reload = std::thread::Builder::new().name("reload".to_owned());
        let reload = reload.spawn_scoped(scope, || gateway.reload(next)).unwrap();
        begun.wait();
        let drained = gateway.drain(Duration::from_secs(60), Duration::ZERO);
        go_on.open();
        let why = reload.join().unwrap().unwrap_err().to_string();
        has(&why, ["ending"]);
        drained
    });
    assert_eq!(settings(&isolation), before);
    // The end is announced: each listener accepts until then.
    let mut client = Peer::new(Wires::Sockets.connect(("127.0.0.1", port)).unwrap());
    client.write(GET);
    let response = client.message();
    response.is_last("404");
    assert!(!drained.is_done());
    until_done(&clock, &drained);
}

#[test]
fn a_listener_gets_its_socket_back_although_its_files_are_gone() {
    let _alone = no_forks();
    let files = Files::new("undone");
    files.write("own", "own.example");
    let path = |end: &str| files.0.join(format!("own.{end}"));
    let port = port();
    let listener = format!(
        "[listen.a]\nat = \"127.0.0.1:{port}\"\n\
         tls = {{ certificates = [{{ cert = {:?}, key = {:?} }}] }}\n",
        path("pem"),
        path("key")
    );
    let hello = "[route.r]\nrespond = 200\n";
    let fixture = Fixture::on_sockets(&format!("{listener}{hello}"));
    let _foreign = TcpListener::bind(format!("127.0.0.9:{port}")).unwrap();
    std::fs::remove_file(path("pem")).unwrap();
    let moved = config(&format!("[listen.a]\nat = \"0.0.0.0:{port}\"\n{hello}"));
    let why = fixture.gateway.reload(moved).unwrap_err().to_string();
    has(&why, ["in use"]);
    lacks(&why, ["closed until"]);
    let own = ("a".to_owned(), format!("127.0.0.1:{port}"));
    assert_eq!(fixture.gateway.addresses()[1], own);
    assert!(TcpStream::connect(&own.1).is_ok());
}
