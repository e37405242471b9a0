//! Which connections a server accepts: pauses, limits, and listeners that come and go.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tidegate_core::{Collect, Dump, Metric, MetricVisitor};
use tidegate_loop::Quiet;
use tidegate_net::{Listener, NetGroup, Server};
use tidegate_testkit::until;

use crate::backlog::hold;
use crate::roaming::roaming;
use crate::{Echo, dial, group, round_trip, serve};

const MINUTE: Duration = Duration::from_secs(60);

fn echo(group: &NetGroup) -> Server {
    serve(group, |p| p.add("echo", Echo))
}

/// Returns once the only loop of `group` has handled every connection that was made before.
fn handled(group: &NetGroup) {
    // The poller reports the connections in the order in which they came.
    let other = echo(group);
    assert_eq!(round_trip(&mut dial(&other), b"x"), b"x");
    other.stop_accepting().wait().unwrap();
}

fn state(dump: &Dump) -> String {
    dump.get("state").unwrap().as_text().unwrap().to_owned()
}

/// Returns `true` if the server closed the connection without an answer.
fn is_refused(mut client: &TcpStream) -> bool {
    // The write may reach a socket that is closed already.
    let _ = client.write_all(b"x");
    !matches!(client.read(&mut [0; 1]), Ok(1..))
}

/// Connects from a certain address of this machine.
fn dial_from(from: [u8; 4], server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&server.local_addr().into()).unwrap();
    socket.into()
}

#[test]
fn a_paused_server_accepts_nothing_until_it_resumes() {
    let group = group(1);
    let server = echo(&group);
    let mut before = dial(&server);
    assert_eq!(round_trip(&mut before, b"x"), b"x");
    server.pause_accepting();
    let mut waiting: Vec<_> = (0..20).map(|_| dial(&server)).collect();
    handled(&group);
    assert_eq!(server.accepted(), 1);
    assert!(!server.metrics().accepting);
    assert_eq!(state(&server.dump()), "paused");
    let listener = group.dump_within(MINUTE).to_string();
    assert!(listener.contains("paused"), "{listener}");
    assert_eq!(round_trip(&mut before, b"y"), b"y", "open ones go on");
    server.resume_accepting();
    for client in &mut waiting {
        assert_eq!(round_trip(client, b"z"), b"z");
    }
    assert!(server.metrics().accepting);
    assert_eq!(state(&server.dump()), "accepting");
}

#[test]
fn a_pause_can_be_repeated_and_ends_with_the_server() {
    let group = group(1);
    let server = echo(&group);
    for _ in 0..3 {
        server.pause_accepting();
        server.pause_accepting();
        let mut client = dial(&server);
        server.resume_accepting();
        server.resume_accepting();
        assert_eq!(round_trip(&mut client, b"x"), b"x");
    }
    server.pause_accepting();
    let mut waiting = dial(&server);
    handled(&group);
    server.stop_accepting().wait().unwrap();
    assert_eq!(
        round_trip(&mut waiting, b"x"),
        b"x",
        "it came before the stop"
    );
    assert_eq!(state(&server.dump()), "stopped");
    server.resume_accepting();
    assert!(TcpStream::connect(server.local_addr()).is_err());
    assert!(!server.metrics().accepting);
}

#[test]
fn a_drain_ends_a_paused_server() {
    let group = group(1);
    let server = echo(&group);
    server.pause_accepting();
    let waiting = dial(&server);
    handled(&group);
    let drained = server.drain(MINUTE);
    drop(waiting);
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn pauses_of_many_threads_lose_no_connection_that_came_before_the_end() {
    let group = group(2);
    for round in 0..tidegate_testkit::rounds(30) {
        let server = echo(&group);
        thread::scope(|scope| {
            for n in 0..2 {
                let server = &server;
                scope.spawn(move || {
                    for step in 0..20 {
                        match (step + n) % 2 {
                            0 => server.pause_accepting(),
                            _ => server.resume_accepting(),
                        }
                    }
                });
            }
            let mut clients: Vec<_> = (0..4).map(|_| dial(&server)).collect();
            let drained = match round % 3 {
                0 => Some(server.drain(MINUTE)),
                1 => {
                    server.stop_accepting().wait().unwrap();
                    None
                }
                _ => {
                    server.pause_accepting();
                    Some(server.drain(MINUTE))
                }
            };
            // They came before the end, so each of them is served.
            for client in &mut clients {
                assert_eq!(round_trip(client, b"x"), b"x", "round {round}");
            }
            drop(clients);
            if let Some(drained) = drained {
                assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
            }
        });
        server.resume_accepting();
        server.closed().wait().unwrap();
        assert!(TcpStream::connect(server.local_addr()).is_err());
        until("the connections end", || server.connections() == 0);
        assert_eq!(server.accepted(), 4);
    }
}

#[test]
fn connections_above_the_limit_are_closed_and_counted() {
    let group = group(2);
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .listeners_per_port(2)
        .max_connections(10)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut clients: Vec<_> = (0..40).map(|_| dial(&server)).collect();
    let (refused, mut admitted): (Vec<_>, Vec<_>) = clients.drain(..).partition(is_refused);
    assert_eq!((admitted.len(), refused.len()), (10, 30));
    let metrics = server.metrics();
    assert_eq!((metrics.connections, metrics.accepted), (10, 10));
    assert_eq!(
        (metrics.refused_in_total, metrics.refused_per_peer),
        (30, 0)
    );
    admitted.pop();
    until("a connection ends", || server.connections() == 9);
    assert!(!is_refused(&dial(&server)), "there is room again");
}

#[test]
fn each_address_has_a_limit_of_its_own() {
    let group = group(2);
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .max_connections_per_peer(2)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut one: Vec<_> = (0..2).map(|_| dial_from([127, 0, 0, 1], &server)).collect();
    assert!(!one.iter().any(is_refused));
    assert!(is_refused(&dial_from([127, 0, 0, 1], &server)));
    let other = dial_from([127, 0, 0, 2], &server);
    assert!(!is_refused(&other));
    assert_eq!(server.metrics().refused_per_peer, 1);
    let line = server.metrics().to_string();
    assert_eq!(
        line,
        "accepting, connections 3, accepted 3, refused per peer 1"
    );
    one.pop();
    until("a connection ends", || server.connections() == 2);
    assert!(!is_refused(&dial_from([127, 0, 0, 1], &server)));
}

#[test]
fn a_limit_holds_for_the_connections_that_wait_when_the_server_stops() {
    let group = group(1);
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .max_connections(1)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let go_on = hold(&group);
    let clients = [dial(&server), dial(&server)];
    let closed = server.stop_accepting();
    go_on.open();
    closed.wait().unwrap();
    assert!(!is_refused(&clients[0]));
    assert!(is_refused(&clients[1]));
    let drained = server.drain(MINUTE);
    drop(clients);
    assert_eq!(
        drained.wait().unwrap().open,
        1,
        "a refused one was not open"
    );
}

/// Creates two TCP listeners and a Unix listener, with the path of the last.
fn three_listeners(name: &str) -> (Vec<Listener>, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
    let unix = UnixListener::bind(&path).unwrap();
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap();
    (vec![tcp().into(), unix.into(), tcp().into()], path)
}

fn addresses(listeners: &[Listener]) -> Vec<Option<SocketAddr>> {
    let address = |one: &Listener| match one {
        Listener::Tcp(listener) => listener.local_addr().ok(),
        _ => None,
    };
    listeners.iter().map(address).collect()
}

#[test]
fn several_listeners_are_served_by_fewer_loops_and_handed_out_in_order() {
    let group = group(1);
    let (listeners, path) = three_listeners("several");
    let places = addresses(&listeners);
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.serve_all(listeners).wait().unwrap();
    assert_eq!(Some(server.local_addr()), places[0]);
    let mut open = TcpStream::connect(places[0].unwrap()).unwrap();
    assert_eq!(round_trip(&mut open, b"x"), b"x");
    let mut second = TcpStream::connect(places[2].unwrap()).unwrap();
    assert_eq!(round_trip(&mut second, b"x"), b"x");
    let mut local = UnixStream::connect(&path).unwrap();
    local.write_all(b"x").unwrap();
    local.read_exact(&mut [0; 1]).unwrap();
    assert_eq!(server.accepted(), 3);

    let listeners = server.release_listeners().wait().unwrap();
    assert_eq!(addresses(&listeners), places);
    assert!(server.closed().is_done());
    assert_eq!(round_trip(&mut open, b"y"), b"y", "open ones go on");
    let mut waits = TcpStream::connect(places[2].unwrap()).unwrap();
    let next = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let next = next.serve_all(listeners).wait().unwrap();
    assert_eq!(round_trip(&mut waits, b"z"), b"z");
    assert_eq!((server.accepted(), next.accepted()), (3, 1));
    let drained = server.drain(MINUTE);
    drop((open, second, local));
    assert_eq!(drained.wait().unwrap().open, 3);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_released_listener_keeps_the_connections_that_wait() {
    let group = group(1);
    let server = echo(&group);
    let go_on = hold(&group);
    let mut waits = dial(&server);
    let released = server.release_listeners();
    go_on.open();
    let [Listener::Tcp(listener)] = &released.wait().unwrap()[..] else {
        panic!("one TCP listener was bound");
    };
    listener.set_nonblocking(false).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(b"mine").unwrap();
    let mut got = [0; 4];
    waits.read_exact(&mut got).unwrap();
    assert_eq!((&got, server.accepted()), (b"mine", 0));
}

#[test]
fn a_listener_is_handed_out_once_and_not_after_a_stop() {
    let group = group(1);
    let server = echo(&group);
    let released = [server.release_listeners(), server.release_listeners()];
    let counts = released.map(|one| one.wait().unwrap().len());
    assert_eq!(counts, [1, 0]);
    assert!(server.release_listeners().wait().unwrap().is_empty());

    let server = echo(&group);
    drop(server.stop_accepting());
    assert!(server.release_listeners().wait().unwrap().is_empty());
    assert!(TcpStream::connect(server.local_addr()).is_err());

    let server = echo(&group);
    let address = server.local_addr();
    let released = server.release_listeners();
    server.stop_accepting().wait().unwrap();
    assert_eq!(released.wait().unwrap().len(), 1, "the release came first");
    assert!(TcpStream::connect(address).is_err(), "it was dropped here");
}

#[test]
fn listeners_are_handed_out_although_the_group_ends() {
    let group = group(2);
    let server = echo(&group);
    let quiet = Quiet::none(MINUTE);
    let ended = group.shutdown(quiet);
    let released = server.release_listeners();
    ended.wait().unwrap();
    assert!(released.wait().unwrap().len() <= 1);
    assert!(server.release_listeners().wait().unwrap().is_empty());
}

#[test]
fn roaming_loops_hand_listeners_out_too() {
    let (_workers, group) = roaming(3);
    let server = Server::builder(&group).bind("127.0.0.1:0").wait().unwrap();
    let listeners = server.release_listeners().wait().unwrap();
    let next = Server::builder(&group).serve_all(listeners).wait().unwrap();
    assert_eq!(next.local_addr(), server.local_addr());
    drop(dial(&next));
    until("the next server accepts", || next.accepted() == 1);
    next.pause_accepting();
    next.resume_accepting();
    drop(dial(&next));
    until("it accepts after a pause", || next.accepted() == 2);
}

#[test]
fn a_server_without_a_listener_is_an_error() {
    let group = group(1);
    let none = Vec::<Listener>::new();
    let why = Server::builder(&group).serve_all(none).wait().unwrap_err();
    assert!(why.to_string().contains("at least one"), "{why}");
}

/// Keeps the values of metrics, by name and label.
#[derive(Default)]
struct Values(Vec<(String, f64)>);

impl MetricVisitor for Values {
    fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        let reason = labels.iter().find(|(name, _)| *name == "reason");
        let reason = reason.map_or(String::new(), |(_, reason)| format!(" {reason}"));
        self.0.push((format!("{}{reason}", metric.name), value));
    }

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        self.counter(metric, labels, value);
    }

    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}

#[test]
fn the_metrics_of_a_server_are_exported() {
    let group = group(1);
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .max_connections(1)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let client = dial(&server);
    assert!(!is_refused(&client));
    assert!(is_refused(&dial(&server)));
    server.pause_accepting();
    server.announce_drain();
    let mut values = Values::default();
    server.collect(&mut values);
    let expected = [
        ("tidegate_server_accepting", 0.0),
        ("tidegate_server_draining", 1.0),
        ("tidegate_server_connections", 1.0),
        ("tidegate_server_held", 0.0),
        ("tidegate_server_accepted", 1.0),
        ("tidegate_server_refused max_connections", 1.0),
        ("tidegate_server_refused max_connections_per_peer", 0.0),
        ("tidegate_server_refused event_loop", 0.0),
        ("tidegate_server_refused max_memory", 0.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(values.0, expected);
}

#[cfg(unix)]
#[test]
fn the_label_of_a_server_on_a_unix_socket_is_its_path() {
    /// Remembers the label `server` of each value.
    #[derive(Debug, Default)]
    struct Labels(Vec<String>);

    impl MetricVisitor for Labels {
        fn counter(&mut self, _: Metric, labels: &[(&str, &str)], _: f64) {
            let servers = labels.iter().filter(|(name, _)| *name == "server");
            self.0.extend(servers.map(|(_, value)| (*value).to_owned()));
        }

        fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
            self.counter(metric, labels, value);
        }

        fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
    }

    let group = group(1);
    let name = format!("tidegate-label-{}.socket", std::process::id());
    let path = std::env::temp_dir().join(name);
    let server = Server::builder(&group).bind_unix(&path).wait().unwrap();
    let mut labels = Labels::default();
    server.collect(&mut labels);
    std::fs::remove_file(&path).unwrap();
    let path = path.display().to_string();
    assert!(labels.0.iter().all(|label| *label == path), "{labels:?}");
    assert_eq!(labels.0.len(), 9);
}
