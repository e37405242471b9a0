//! Listeners whose addresses move by a reload.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tidegate_testkit::{Folder, Gate, lacks};

use crate::steps::no_forks;
use crate::*;

/// Returns a port that is free on all addresses. It is none of those that the system chooses.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    tidegate_testkit::until_some("a port is free", || {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id() * 7 + next * 131) % 20_000;
        let port = u16::try_from(port).unwrap();
        TcpListener::bind(("0.0.0.0", port)).ok().map(|_| port)
    })
}

/// Returns a configuration with a listener of this name besides `http`, and a route.
fn at(listeners: &[(&str, &str, &str)]) -> Config {
    let mut text = String::new();
    for (name, at, settings) in listeners {
        text += &format!("[listen.{name}]\nat = \"{at}\"\n{settings}\n");
    }
    config(&format!("{text}[route.r]\nrespond = 200\n"))
}

fn reload(fixture: &Fixture, listeners: &[(&str, &str, &str)]) {
    let notes = fixture.gateway.reload(at(listeners)).unwrap();
    assert_eq!(notes, [""; 0]);
}

fn connect(address: &str) -> Peer {
    connect_to(address)
}

/// Sends a request on a connection, and returns the status.
fn ask(client: &mut Peer) -> String {
    client.write(GET);
    client.message().status().to_owned()
}

const PROXIED: &str = "proxy_protocol = true\ntrust = [\"127.0.0.0/8\"]";

#[test]
fn two_listeners_exchange_their_addresses() {
    let _alone = no_forks();
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let (one, two) = (port(), port());
    let (one, two) = (format!("127.0.0.1:{one}"), format!("127.0.0.1:{two}"));
    reload(&fixture, &[("a", &one, ""), ("b", &two, PROXIED)]);
    let mut old = connect(&one);
    assert_eq!(ask(&mut old), "200");
    reload(&fixture, &[("a", &two, ""), ("b", &one, PROXIED)]);
    let addresses = fixture.gateway.addresses();
    let expected = [("a", &two), ("b", &one)];
    let expected = expected.map(|(name, at)| (name.to_owned(), at.clone()));
    assert_eq!(addresses[1..], expected);
    assert_eq!(ask(&mut connect(&two)), "200", "with the settings of `a`");
    let mut proxied = connect(&one);
    proxied.write("PROXY TCP4 192.0.2.1 192.0.2.9 4000 443\r\n");
    assert_eq!(ask(&mut proxied), "200", "with those of `b`");
    assert_eq!(ask(&mut old), "200", "with its own");
}

#[test]
fn nobody_is_refused_while_listeners_exchange_their_addresses() {
    let _alone = no_forks();
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let (one, two) = (port(), port());
    let (one, two) = (format!("127.0.0.1:{one}"), format!("127.0.0.1:{two}"));
    reload(&fixture, &[("a", &one, ""), ("b", &two, "")]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = |address: &str, served: &Gate| {
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(ask(&mut connect(address)), "200");
                served.open();
            }
        };
        for address in [&one, &two] {
            let served = Gate::new();
            let own = served.clone();
            scope.spawn(move || client(address, &own));
            served.wait();
        }
        for round in 0..30 {
            let (first, second) = match round % 2 {
                0 => (&two, &one),
                _ => (&one, &two),
            };
            reload(&fixture, &[("a", first, ""), ("b", second, "")]);
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// The system does not bind both at the same time, unless both sockets allow it.
#[test]
fn a_listener_moves_to_all_addresses_of_its_port_and_back() {
    let _alone = no_forks();
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let port = port();
    let (one, all) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    let other = format!("127.0.0.2:{port}");
    reload(&fixture, &[("a", &one, "")]);
    for _ in 0..5 {
        for at in [&all, &one] {
            reload(&fixture, &[("a", at, "")]);
            assert_eq!(fixture.gateway.addresses()[1].1, *at);
            assert_eq!(ask(&mut connect(&one)), "200");
            let is_open = TcpStream::connect(&other).is_ok();
            assert_eq!(is_open, at == &all, "{at}");
        }
    }
    // Connections stay, as with other changes of a listener.
    let mut idle = connect(&one);
    assert_eq!(ask(&mut idle), "200");
    reload(&fixture, &[("b", &all, "")]);
    assert_eq!(ask(&mut idle), "200");
    // Without a listener, one that is idle ends.
    reload(&fixture, &[]);
    let mut last = connect(&fixture.address());
    assert_eq!(ask(&mut last), "200");
}

#[test]
fn clients_that_wait_at_the_old_address_are_accepted() {
    let _alone = no_forks();
    let group = NetGroup::builder("gateway").loops(1).build().unwrap();
    let isolation = Isolation::builder().build().unwrap();
    let port = port();
    let (one, all) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    let gateway = Gateway::start(at(&[("a", &one, "")]), &group, &isolation).unwrap();
    for at_next in [&all, &one] {
        // The loop stands still until all of them wait.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let stops = move || assert!(wait.recv_timeout(PATIENCE).is_err());
        group.loops().next().execute(stops).unwrap();
        let mut clients: Vec<Peer> = (0..5).map(|_| connect(&one)).collect();
        for client in &mut clients {
            client.write(GET);
        }
        std::thread::scope(|scope| {
            let reload = scope.spawn(|| gateway.reload(at(&[("a", at_next, "")])).unwrap());
            drop(go);
            assert_eq!(reload.join().unwrap(), [""; 0]);
        });
        for client in &mut clients {
            assert_eq!(client.message().status(), "200");
        }
    }
    gateway.drain(Duration::ZERO, PATIENCE).wait().unwrap();
}

#[test]
fn a_move_that_fails_leaves_the_old_listener() {
    let _alone = no_forks();
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let port = port();
    let (one, all) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    reload(&fixture, &[("a", &one, "")]);
    let mut old = connect(&one);
    assert_eq!(ask(&mut old), "200");
    let foreign = TcpListener::bind(format!("127.0.0.9:{port}")).unwrap();
    for _ in 0..2 {
        let why = fixture.gateway.reload(at(&[("b", &all, "")])).unwrap_err();
        let why = why.to_string();
        let at = format!("listen.b: cannot listen on {all}: ");
        assert!(why.starts_with(&at) && why.contains("in use"), "{why}");
        lacks(&why, ["closed until"]);
        let addresses = fixture.gateway.addresses();
        assert_eq!(addresses[1], ("a".to_owned(), one.clone()));
        assert_eq!(ask(&mut connect(&one)), "200", "as before");
        assert_eq!(ask(&mut old), "200");
    }
    drop(foreign);
    reload(&fixture, &[("b", &all, "")]);
    assert_eq!(ask(&mut connect(&one)), "200");
}

#[test]
fn the_address_of_a_removed_listener_is_free_when_the_reload_has_ended() {
    let _alone = no_forks();
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let address = format!("127.0.0.1:{}", port());
    for _ in 0..50 {
        reload(&fixture, &[("x", &address, "")]);
        reload(&fixture, &[]);
        drop(TcpListener::bind(&address).unwrap());
    }
}

#[test]
fn unix_sockets_belong_to_their_paths() {
    let folder = Folder::new("moves");
    let path = |name: &str| format!("unix:{}/{name}", folder.display());
    let status = |name: &str| {
        let mut client = UnixStream::connect(folder.join(name)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(GET.as_bytes()).unwrap();
        let mut start = [0; 12];
        client.read_exact(&mut start).unwrap();
        String::from_utf8(start.to_vec()).unwrap()
    };
    let fixture = Fixture::on_sockets("[route.r]\nrespond = 200\n");
    let (one, two, also) = (path("one"), path("two"), path("./two"));
    let rows = [
        [("a", &one), ("b", &two)],
        [("a", &two), ("b", &one)],
        [("a", &one), ("b", &also)],
    ];
    for row in rows {
        reload(&fixture, &row.map(|(name, at)| (name, at.as_str(), "")));
        for name in ["one", "two"] {
            assert_eq!(status(name), "HTTP/1.1 200", "{row:?}");
        }
    }
    reload(&fixture, &[]);
    assert!(!folder.join("one").exists() && !folder.join("two").exists());
    std::fs::remove_dir(&folder).unwrap();
}
