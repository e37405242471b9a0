//! Errors name their subject: the address, the path, the event loop.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use tidegate_loop::Quiet;
use tidegate_net::{Address, Channel, Client, NetError, Server};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Completion, Failure};

use crate::group;

/// Returns an address without a listener.
fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn failure<T: Send + 'static>(what: Completion<T>) -> Failure {
    match what.wait() {
        Ok(_) => panic!("it went well"),
        Err(why) => why.failure().unwrap(),
    }
}

fn says(why: &Failure, parts: &[&str]) {
    let text = why.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_refused_connect_names_the_address_and_keeps_its_kind() {
    let (client, unused_address) = (Client::builder(&group(1)).build(), unused_address());
    let why = failure(client.connect(unused_address));
    says(
        &why,
        &["cannot connect to", &unused_address.to_string(), "refused"],
    );
    let io = why.downcast_ref::<io::Error>().unwrap();
    assert_eq!(io.kind(), io::ErrorKind::ConnectionRefused);

    let named = format!("localhost:{}", unused_address.port());
    let why = failure(client.connect(named.as_str()));
    says(&why, &[&named, "(", "refused"]);

    let why = failure(client.connect_unix("/nobody/listens/here"));
    says(&why, &["cannot connect to `/nobody/listens/here`"]);
}

#[test]
fn a_connect_that_fails_at_once_names_the_address() {
    // Port 0 cannot be connected to; the operating system reports this at once or shortly after.
    let why = failure(Client::builder(&group(1)).connect("127.0.0.1:0"));
    says(&why, &["cannot connect to 127.0.0.1:0: "]);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let group = group(1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let why = failure(Server::builder(&group).bind(address));
    says(&why, &["cannot listen on", &address.to_string(), "in use"]);
    let named = format!("localhost:{}", address.port());
    if let Err(why) = Server::builder(&group).bind(named.as_str()).wait() {
        says(&why.failure().unwrap(), &[&named, "cannot listen on"]);
    }

    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let why = failure(Client::builder(&group).build().bind_udp(address));
    says(&why, &["UDP", &address.to_string(), "in use"]);

    let why = failure(Server::builder(&group).bind_unix("/no/such/folder/socket"));
    says(&why, &["cannot listen on `/no/such/folder/socket`"]);
}

/// The operations that open something on a group, for both placements.
struct Opens<'a> {
    connect: &'a dyn Fn(Address) -> Completion<Channel>,
    udp: &'a dyn Fn(SocketAddr) -> Completion<Channel>,
    bind: &'a dyn Fn(SocketAddr) -> Completion<Server>,
}

/// Checks that nothing can be opened on event loops that have ended, and that the errors say so.
fn nothing_opens(opens: &Opens<'_>) {
    let (unused_address, name) = (unused_address(), "event loop `io-0`");
    let connect = failure((opens.connect)(unused_address.into()));
    says(
        &connect,
        &["cannot connect to", &unused_address.to_string(), name],
    );
    assert!(!connect.is_abandoned());
    let why = connect.downcast_ref::<NetError>();
    assert!(matches!(why, Some(NetError::NotOpened { .. })), "{why:?}");
    let any = "127.0.0.1:0".parse().unwrap();
    says(&failure((opens.udp)(any)), &["UDP", name]);
    let bound = failure((opens.bind)(any));
    says(&bound, &["cannot listen on 127.0.0.1", name]);
    let named = failure((opens.connect)(("localhost", unused_address.port()).into()));
    says(&named, &["cannot connect to", "localhost", name]);
}

#[test]
fn loops_that_have_ended_are_named() {
    let at_once = || Quiet::none(Duration::from_secs(60));
    let pinned = group(1);
    pinned.shutdown(at_once()).wait().unwrap();
    let client = Client::builder(&pinned).build();
    nothing_opens(&Opens {
        connect: &|to| client.connect(to),
        udp: &|at| client.bind_udp(at),
        bind: &|at| Server::builder(&pinned).bind(at),
    });
    let workers = WorkerPool::builder("workers").core(3).max(3);
    let workers = workers.build().unwrap();
    let roaming = tidegate_net::roaming("io", 1, &workers).unwrap();
    roaming.shutdown(at_once()).wait().unwrap();
    let client = Client::builder(&roaming).build();
    nothing_opens(&Opens {
        connect: &|to| client.connect(to),
        udp: &|at| client.bind_udp(at),
        bind: &|at| Server::builder(&roaming).bind(at),
    });
}

#[test]
fn a_connect_that_its_loop_does_not_live_to_see_says_so() {
    let group = group(1);
    // This listener never accepts: the connect is in progress when the event loop ends.
    let listener = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )
    .unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let to = listener.local_addr().unwrap().as_socket().unwrap();
    let filled: Vec<_> = (0..4)
        .map(|_| {
            let one = Client::builder(&group).connect(to);
            group.submit(|| ()).unwrap().wait().unwrap();
            one
        })
        .collect();
    let ended = group.shutdown(Quiet::none(Duration::from_secs(60)));
    ended.wait().unwrap();
    let mut unmade = 0;
    for one in filled {
        if let Err(why) = one.wait() {
            unmade += 1;
            says(
                &why.failure().unwrap(),
                &["cannot connect to", &to.to_string()],
            );
        }
    }
    assert!(unmade > 0, "the backlog took them all");
}

#[cfg(feature = "tls")]
#[test]
fn a_file_without_a_key_or_a_certificate_says_which() {
    use tidegate_net::tls::{TlsClient, TlsServer};

    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let text = |chain: &str, key: &str| {
        let why = TlsServer::from_pem(chain.as_bytes(), key.as_bytes());
        why.unwrap_err().to_string()
    };
    for empty in ["", "no key at all", &chain] {
        let why = text(&chain, empty);
        assert!(why.contains("holds no private key"), "{why}");
    }
    for empty in ["", "no certificate", &key] {
        let why = text(empty, &key);
        assert!(why.contains("holds no certificate"), "{why}");
    }
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let why = text(&chain, &other);
    assert!(why.contains("do not fit"), "{why}");
    let cut = &key[..key.len() / 2];
    let why = text(&chain, cut);
    assert!(why.contains("private key"), "{why}");
    let why = TlsClient::trusting(b"").unwrap_err().to_string();
    assert!(why.contains("no certificate"), "{why}");
}
