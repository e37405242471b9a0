//! The limit of connections, and calls that wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::{Domain, Socket, Type};
use tidegate_core::ManualClock;
use tidegate_http::client::Phase;
use tidegate_testkit::Counter;

use crate::*;

/// A server that counts its connections. It ends each one after a few responses.
pub(crate) struct CountingServer {
    pub(crate) url: String,
    pub(crate) served: Counter,
    most: Arc<AtomicUsize>,
}

impl CountingServer {
    pub(crate) fn start(responses: usize) -> Self {
        let upstream = Upstream::new();
        let server = Self {
            url: upstream.url("/"),
            served: Counter::new(),
            most: Arc::default(),
        };
        let (most, served) = (Arc::clone(&server.most), server.served.clone());
        let open = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            loop {
                let mut peer = upstream.accept();
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (open, served) = (Arc::clone(&open), served.clone());
                std::thread::spawn(move || {
                    for left in (0..responses).rev() {
                        peer.request();
                        served.hit();
                        let close = match left {
                            0 => "Connection: close\r\n",
                            _ => "",
                        };
                        if left == 0 {
                            // Before the client can know of the end.
                            open.fetch_sub(1, Ordering::SeqCst);
                        }
                        peer.respond(&format!(
                            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{close}\r\nok"
                        ));
                    }
                });
            }
        });
        server
    }

    /// Returns how many connections were open at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[test]
fn a_full_pool_refuses_at_once() {
    let client = builder().max_connections(1).max_waiting(1).build();
    let upstream = Upstream::new();
    let running = client.get(upstream.url("/")).send();
    let waiting = client.get(upstream.url("/")).send();
    let why = error(client.get(upstream.url("/")).send());
    assert!(
        why.is_refused() && why.is_safe_to_retry() && !why.was_sent(),
        "{why}"
    );
    assert_eq!(why.phase(), Phase::Wait);
    let mut peer = upstream.accept();
    for call in [running, waiting] {
        peer.serve(call);
    }
}

#[test]
fn the_limit_is_exact_over_all_loops_and_other_hosts_are_not_affected() {
    const LIMIT: usize = 3;
    const CALLS: usize = 60;
    let group = group(3);
    let client = Client::builder(&group).max_connections(LIMIT).build();
    let silent = Upstream::new();
    let stuck: Vec<_> = (0..LIMIT)
        .map(|_| client.get(silent.url("/")).send())
        .collect();
    let server = CountingServer::start(3);
    let calls: Vec<_> = (0..CALLS).map(|_| client.get(&server.url).send()).collect();
    for call in calls {
        assert_eq!(text(call), "ok");
    }
    assert_eq!(server.served.count(), CALLS as u64);
    assert!(server.most() <= LIMIT);
    assert!(stuck.iter().all(|call| !call.is_done()));
}

#[test]
fn above_the_number_to_keep_the_oldest_idle_connection_is_closed() {
    let group = group(1);
    for on_a_loop in [false, true] {
        let client = Client::builder(&group).keep(1).build();
        let upstream = Upstream::new();
        let call = || {
            let (client, url) = (client.clone(), upstream.url("/"));
            match on_a_loop {
                true => on_loop(&group, move || client.get(url).send()),
                false => client.get(url).send(),
            }
        };
        let (first, mut old) = (call(), upstream.accept_request());
        let (second, mut new) = (call(), upstream.accept_request());
        old.finish(first);
        new.finish(second);
        old.wait_closed();
        new.serve(call());
        assert_eq!(Counts::of(&client), (1.0, 2.0));
    }
}

/// Runs `run` on the loop of a group that has one.
fn on_loop<T: Send + 'static>(group: &NetGroup, run: impl FnOnce() -> T + Send + 'static) -> T {
    let home = group.loops().next();
    let ran = home.submit(run).unwrap_or_else(|_| panic!("the loop runs"));
    ran.wait().unwrap()
}

#[test]
fn a_cancelled_connect_keeps_its_place_until_its_socket_is_closed() {
    let group = group(1);
    let client = Client::builder(&group)
        .max_connections(1)
        .max_waiting(1)
        .build();
    let upstream = Upstream::new();
    let (own, url) = (client.clone(), upstream.url("/"));
    // The loop cannot close the socket before this task has ended.
    let (waiting, refused) = on_loop(&group, move || {
        drop(own.get(&url).send());
        (own.get(&url).send(), own.get(&url).send())
    });
    assert!(error(refused).is_refused(), "the other one waits");
    // Maybe after the connection that was cancelled.
    let mut peer = upstream.accept();
    let mut first = [0];
    if peer.0.peek(&mut first).unwrap_or(0) == 0 {
        peer = upstream.accept();
    }
    peer.serve(waiting);
}

#[test]
fn a_call_that_leaves_while_its_name_is_resolved_frees_its_place_at_once() {
    let upstream = Upstream::new();
    let address = upstream.0.local_addr().unwrap();
    let (promise, addresses) = tidegate_promise::promise::<Vec<SocketAddr>>();
    let addresses = addresses.share().unwrap_or_else(|_| panic!("it is new"));
    let client = builder()
        .max_connections(1)
        .max_waiting(0)
        .resolver(move |_, _| {
            let (own, found) = tidegate_promise::promise();
            addresses.on_complete(move |outcome| {
                if let Some(found) = outcome.success() {
                    drop(own.succeed(found.clone()));
                }
            });
            found
        })
        .build();
    drop(client.get("http://name.test/left").send());
    let call = client.get("http://name.test/stays").send();
    assert!(promise.succeed(vec![address]).is_ok());
    let mut peer = upstream.accept();
    assert!(peer.request().starts_with("GET /stays "));
    peer.finish(call);
}

#[test]
fn the_addresses_of_a_name_are_tried_under_one_permit() {
    // The first address accepts nothing more, so that its connect stays outstanding.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    full.listen(0).unwrap();
    let stuck = full.local_addr().unwrap().as_socket().unwrap();
    // One has a place. Others do not get an answer.
    let _accepted = TcpStream::connect(stuck).unwrap();
    let waits = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    waits.set_nonblocking(true).unwrap();
    waits.connect(&stuck.into()).unwrap_err();
    let upstream = Upstream::new();
    let other = upstream.0.local_addr().unwrap();
    let clock = ManualClock::new();
    let group = NetGroup::builder("io").loops(1).clock(&clock);
    let group = group.build().unwrap();
    let client = Client::builder(&group)
        .max_connections(1)
        .resolver(move |_, _| Completion::succeeded(vec![stuck, other]))
        .build();
    let call = client.get("http://name.test/").send();
    // The second address is tried 250 ms later, without a second permit.
    clock.advance(Duration::from_millis(300));
    upstream.accept().serve(call);
}
