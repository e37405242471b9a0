//! Our client: calls, in tasks of its loop, and exchanges, of which each begins the next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_http::client::{Client, ClientError, Exchange, ExchangeHandler, Flow, Upstream};
use tidegate_http::codec::{
    BodyFraming, BodyLimits, HeadLimits, HeadTable, OwnedRequestHead, RequestDecoder, ResponseHead,
};
use tidegate_net::{HandlerContext, NetGroup};

use super::Caller;
use crate::client::{ACCEPT, AGENT, BODY, CONNECTIONS};
use crate::gate::Gate;
use crate::http::REQUEST;

fn client() -> (NetGroup, Client) {
    let group = tidegate_net::pinned("client", 1).expect("a poller");
    let client = Client::builder(&group)
        .max_connections(CONNECTIONS as usize)
        .max_requests(u64::MAX)
        .build();
    (group, client)
}

/// Calls in tasks, as a program with futures makes them.
pub(super) fn calls(to: SocketAddr) -> Caller {
    let (group, client) = client();
    let url = format!("http://{to}/plaintext");
    Box::new(move |each| {
        let task = || {
            let (client, url) = (client.clone(), url.clone());
            let calls = group.spawn(async move {
                for _ in 0..each {
                    call(&client, &url).await;
                }
            });
            calls.unwrap_or_else(|_| panic!("the loop runs"))
        };
        let tasks: Vec<_> = (0..CONNECTIONS).map(|_| task()).collect();
        for task in tasks {
            task.wait().expect("every call succeeds");
        }
    })
}

async fn call(client: &Client, url: &str) {
    let request = client.get(url);
    let request = request.field("User-Agent", AGENT).field("Accept", ACCEPT);
    let response = request.send().await.expect("a response");
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(piece) = body.next().await {
        length += piece.expect("the whole body").len();
    }
    assert_eq!(length, BODY);
}

/// Exchanges, as a handler makes them. The end of one begins the next.
pub(super) fn exchanges(to: SocketAddr) -> Caller {
    let (group, client) = client();
    let upstream = client.upstream(&format!("http://{to}/"));
    let shared = Arc::new(Shared {
        upstream: upstream.expect("a valid URL"),
        head: head(),
        left: AtomicU64::new(0),
        gate: Gate::new(),
    });
    Box::new(move |each| {
        // The loop stays.
        let _ = &group;
        let all = each * CONNECTIONS;
        shared.gate.arm(all as usize);
        shared.left.store(all - CONNECTIONS, Ordering::Relaxed);
        for _ in 0..CONNECTIONS {
            let mine = Arc::clone(&shared);
            let first = move || {
                let begins = Arc::clone(&mine);
                let pending = mine.upstream.acquire(move |exchange| {
                    begins.begin(exchange.expect("a connection"));
                });
                // It ends with the process.
                std::mem::forget(pending);
            };
            group.loops().next().execute(first).expect("the loop runs");
        }
        shared.gate.wait("our exchanges");
    })
}

struct Shared {
    upstream: Upstream<Receiver>,
    head: OwnedRequestHead,
    /// Requests that were not begun.
    left: AtomicU64,
    gate: Gate,
}

impl Shared {
    fn begin(self: &Arc<Self>, mut exchange: Exchange<Receiver>) {
        let receiver = Receiver {
            shared: Arc::clone(self),
            length: 0,
        };
        let begun = exchange.begin(&self.head, receiver);
        assert!(begun.is_ok(), "the connection is open");
    }
}

/// Receives a response, then begins the next exchange.
struct Receiver {
    shared: Arc<Shared>,
    length: usize,
}

impl ExchangeHandler for Receiver {
    fn head(&mut self, head: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {
        assert_eq!(head.status(), 200);
    }

    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow {
        self.length += bytes.len();
        ctx.give_back(bytes);
        Flow::More
    }

    fn end(self, _: &mut HandlerContext<'_>) {
        assert_eq!(self.length, BODY);
        let left = &self.shared.left;
        // Only this loop counts.
        let now = left.load(Ordering::Relaxed);
        if now > 0 {
            left.store(now - 1, Ordering::Relaxed);
            let next = self.shared.upstream.try_acquire();
            self.shared
                .begin(next.expect("this connection is idle now"));
        }
        self.shared.gate.pass();
    }

    fn fail(self, why: ClientError, _: &mut HandlerContext<'_>) {
        panic!("{why}");
    }
}

/// Returns the head of the request, as the raw client sends it.
fn head() -> OwnedRequestHead {
    let mut table = HeadTable::new();
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let head = decoder.head(REQUEST, &mut table).expect("a valid request");
    head.expect("a whole one").to_owned()
}
