//! Wakers that panic, or that use what they belong to.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_http::client::ResponseBody;
use tidegate_testkit::{block_on, until};

use crate::*;

/// A waker that panics whenever it is used.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose, too");
        }
    }
}

/// Polls with a waker that panics, and that is dropped elsewhere.
fn poll_with_panics<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let waker = Waker::from(Arc::new(Panics));
    let polled = poll(&mut Context::from_waker(&waker));
    // The other one is with the body, unless that was ready.
    if polled.is_ready() {
        std::mem::forget(waker);
    } else {
        drop(waker);
    }
    polled
}

#[test]
fn a_reader_whose_waker_panics_harms_no_other_call() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    let mut body = call.wait().unwrap().into_body();
    for piece in ["one", "two"] {
        assert!(poll_with_panics(|cx| body.poll_next(cx)).is_pending());
        peer.respond(piece);
        let next = block_on("a piece", body.next()).unwrap().unwrap();
        assert_eq!(next, piece);
    }
    // One replaces the other.
    assert!(poll_with_panics(|cx| body.poll_next(cx)).is_pending());
    assert!(poll_with_panics(|cx| body.poll_next(cx)).is_pending());
    peer.respond("end");
    assert_eq!(block_on("the rest", body.collect(3)).unwrap(), "end");
    let call = client.get(upstream.url("/")).send();
    peer.serve(call);
}

#[test]
fn a_writer_whose_waker_panics_gets_its_connection() {
    let upstream = Upstream::new();
    let client = builder().max_connections(1).build();
    let first = client.get(upstream.url("/")).send();
    let mut peer = upstream.accept_request();
    let (mut body, response) = client.post(upstream.url("/")).send_stream(Some(3));
    {
        let mut write = pin!(body.write("one"));
        let polled = poll_with_panics(|cx| write.as_mut().poll(cx));
        assert!(polled.is_pending(), "the connection is in use");
    }
    peer.finish(first);
    assert!(block_on("a piece", body.write("one")).unwrap());
    block_on("the end", body.finish()).unwrap();
    assert!(peer.request().ends_with("\r\n\r\none"));
    peer.finish(response);
}

/// A waker that drops the body that it was called for.
struct DropsBody(Arc<Mutex<Option<ResponseBody>>>);

impl Wake for DropsBody {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_its_body() {
    let (upstream, client) = (Upstream::new(), client());
    for rest in ["on", "one"] {
        let (call, mut peer) = upstream.call(&client);
        peer.respond("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n");
        let body = Arc::new(Mutex::new(Some(call.wait().unwrap().into_body())));
        let waker = Waker::from(Arc::new(DropsBody(Arc::clone(&body))));
        let poll = |body: &mut Option<ResponseBody>| {
            let mut cx = Context::from_waker(&waker);
            body.as_mut().unwrap().poll_next(&mut cx).is_pending()
        };
        assert!(poll(&mut body.lock().unwrap()));
        peer.respond(rest);
        until("the body is dropped", || body.lock().unwrap().is_none());
        peer.wait_closed();
    }
}
