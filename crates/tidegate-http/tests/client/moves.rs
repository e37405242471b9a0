//! Idle connections of other loops, at the limit: they move to the loop that needs them.

use std::sync::mpsc::{Sender, channel};

use tidegate_http::client::{Exchange, ExchangeHandler, Flow, Upstream as Target};
use tidegate_http::codec::{
    BodyFraming, BodyLimits, HeadLimits, HeadTable, OwnedRequestHead, RequestDecoder, ResponseHead,
};
use tidegate_net::{Bytes, HandlerContext};
use tidegate_testkit::{Stop, rounds};

use crate::*;

/// Returns a group whose clock stands still, so that a move may take any time.
fn still(loops: usize) -> (ManualClock, NetGroup) {
    let clock = ManualClock::new();
    let group = NetGroup::builder("io").loops(loops).clock(&clock);
    let group = group.build().unwrap();
    (clock, group)
}

/// Makes a call on a loop, and returns its body.
fn call_on(group: &NetGroup, at: usize, client: &Client, request: Request) -> Completion<String> {
    let client = client.clone();
    let home = group.loops().iter().nth(at).unwrap();
    let called = home.spawn(async move {
        let request = match request {
            Request::Get(url) => client.get(url),
            Request::Post(url) => client.post(url).body("once"),
        };
        let response = request.send().await.unwrap();
        let body = response.collect(1000).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    });
    called.unwrap_or_else(|_| panic!("the loop runs"))
}

/// Makes a call on the first loop. Its connection is idle there afterwards.
fn idle_on_the_first(group: &NetGroup, client: &Client, upstream: &Upstream) -> Peer {
    let call = call_on(group, 0, client, Request::Get(upstream.url("/")));
    let mut peer = upstream.accept_request();
    peer.respond(OK);
    assert_eq!(call.wait().unwrap(), "ok");
    peer
}

enum Request {
    Get(String),
    Post(String),
}

#[test]
fn a_loop_makes_a_connection_or_at_the_limit_uses_that_of_another_one() {
    let (_clock, group) = still(2);
    let upstream = Upstream::new();
    let client = Client::builder(&group).max_connections(2).build();
    let _first = idle_on_the_first(&group, &client, &upstream);
    let call = call_on(&group, 1, &client, Request::Get(upstream.url("/")));
    upstream.accept_request().respond(OK);
    assert_eq!(call.wait().unwrap(), "ok");
    assert_eq!(Counts::of(&client), (0.0, 2.0));
    let client = Client::builder(&group).max_connections(1).build();
    let mut peer = None;
    for at in [0, 1, 1, 0, 1] {
        let call = call_on(&group, at, &client, Request::Get(upstream.url("/")));
        // There is one connection, whichever loop has it.
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.request();
        peer.respond(OK);
        assert_eq!(call.wait().unwrap(), "ok");
    }
    assert_eq!(Counts::of(&client), (4.0, 1.0));
}

/// Sends the name of the loop on which the response has come.
struct Loop(Sender<String>);

impl ExchangeHandler for Loop {
    fn head(&mut self, _: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {}
    fn data(&mut self, _: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        Flow::More
    }
    fn end(self, ctx: &mut HandlerContext<'_>) {
        self.0.send(ctx.channel().loop_name().to_owned()).unwrap();
    }
    fn fail(self, why: ClientError, _: &mut HandlerContext<'_>) {
        self.0.send(why.to_string()).unwrap();
    }
}

fn head() -> OwnedRequestHead {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = decoder.head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table);
    head.unwrap().unwrap().to_owned()
}

#[test]
fn the_response_comes_on_the_loop_of_the_exchange() {
    let (_clock, group) = still(3);
    let upstream = Upstream::new();
    let client = Client::builder(&group).max_connections(1).build();
    let target: Target<Loop> = client.upstream(&upstream.url("/")).unwrap();
    let (send, loops) = channel();
    let mut peer = None;
    for at in [0, 2, 1] {
        let (target, send) = (target.clone(), send.clone());
        let home = group.loops().iter().nth(at).unwrap();
        let pending = home.submit(move || {
            target.acquire(move |acquired| {
                let mut exchange: Exchange<Loop> = acquired.unwrap();
                assert!(exchange.begin(&head(), Loop(send)).is_ok());
            })
        });
        let _pending = pending.unwrap_or_else(|_| panic!("the loop runs")).wait();
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.request();
        peer.respond(OK);
        assert_eq!(loops.recv().unwrap(), home.name());
    }
}

#[test]
fn a_connection_that_has_ended_or_has_bytes_does_not_move() {
    let stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";
    for round in 0..rounds(40) {
        let (_clock, group) = still(2);
        let client = Client::builder(&group).max_connections(1).build();
        let upstream = Upstream::new();
        let mut peer = idle_on_the_first(&group, &client, &upstream);
        let mut kept = None;
        match round % 2 {
            0 => drop(peer),
            _ => {
                peer.respond(stray);
                kept = Some(peer);
            }
        }
        // Nothing was sent on the old connection, so a POST is safe, too.
        let call = call_on(&group, 1, &client, Request::Post(upstream.url("/")));
        let mut peer = upstream.accept();
        assert!(peer.request().ends_with("once"));
        peer.respond(OK);
        assert_eq!(call.wait().unwrap(), "ok");
        if let Some(mut old) = kept {
            old.wait_closed();
        }
    }
}

#[test]
fn a_caller_that_leaves_during_the_move_leaves_the_connection_to_the_next_one() {
    let (_clock, group) = still(2);
    let client = Client::builder(&group).max_connections(1).build();
    let upstream = Upstream::new();
    let mut peer = idle_on_the_first(&group, &client, &upstream);
    let (again, url) = (client.clone(), upstream.url("/left"));
    let home = group.loops().iter().nth(1).unwrap();
    let left = home.submit(move || drop(again.get(url).send()));
    left.unwrap_or_else(|_| panic!("the loop runs"))
        .wait()
        .unwrap();
    let call = call_on(&group, 1, &client, Request::Get(upstream.url("/next")));
    assert!(peer.request().starts_with("GET /next "));
    peer.respond(OK);
    assert_eq!(call.wait().unwrap(), "ok");
    assert_eq!(Counts::of(&client), (1.0, 1.0));
}

#[test]
fn a_loop_that_is_busy_does_not_hold_up_calls_of_others() {
    let (_clock, group) = still(2);
    let client = Client::builder(&group).build();
    let upstream = Upstream::new();
    let _peer = idle_on_the_first(&group, &client, &upstream);
    // The loop of the idle connection does something else.
    let stop = Stop::new();
    let home = group.loops().iter().next().unwrap();
    let blocked = home.submit(stop.closure());
    stop.reached();
    let (own, url) = (client.clone(), upstream.url("/new"));
    let home = group.loops().iter().nth(1).unwrap();
    let call = home.submit(move || own.get(url).send());
    let call = call.unwrap_or_else(|_| panic!("the loop runs"));
    let call = call.wait().unwrap();
    let mut other = upstream.accept();
    assert!(other.request().starts_with("GET /new "));
    other.finish(call);
    stop.go_on();
    let blocked = blocked.unwrap_or_else(|_| panic!("the loop runs"));
    blocked.wait().unwrap();
}

#[test]
fn calls_of_all_loops_share_few_connections_and_none_is_lost() {
    const LIMIT: usize = 4;
    const CALLS: usize = 300;
    let group = group(3);
    let client = Client::builder(&group)
        .max_connections(LIMIT)
        .wait_timeout(Duration::from_secs(600))
        .build();
    let server = limits::CountingServer::start(7);
    let calls: Vec<_> = (0..CALLS)
        .map(|n| call_on(&group, n % 3, &client, Request::Get(server.url.clone())))
        .collect();
    for call in calls {
        assert_eq!(call.wait().unwrap(), "ok");
    }
    assert_eq!(server.served.count(), CALLS as u64);
    assert!(server.most() <= LIMIT);
    let (reused, new) = Counts::of(&client);
    assert_eq!(reused + new, CALLS as f64);
}
