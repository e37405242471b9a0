//! A connection that is passed on to another protocol.

use std::future::poll_fn;
use std::io::Write;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_io::AsyncWrite;
use tidegate_http::{Body, serve};
use tidegate_net::{ByteStream, Handler, Inbound, InboundContext, Nothing, StreamHandler};
use tidegate_pool::WorkerPool;

use crate::{Client, start};

/// Sends everything back, and a line at the end.
async fn echo(mut stream: ByteStream) {
    while let Ok(piece) = poll_fn(|cx| stream.poll_read_bytes(cx)).await {
        let is_end = piece.is_empty();
        let mut rest = match is_end {
            true => Bytes::from("bye\n"),
            false => piece,
        };
        let sent = poll_fn(|cx| stream.poll_write_bytes(cx, &mut rest)).await;
        let flushed = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
        if is_end || sent.is_err() || flushed.is_err() {
            break;
        }
    }
}

#[test]
fn a_stream_takes_over_a_connection_from_another_thread() {
    let other = tidegate_net::pinned("other", 1).unwrap();
    let loops = other.loops().clone();
    let server = start(move |request, response| {
        if request.upgrade().is_none() {
            return response.body("http");
        }
        let response = response.defer().field("Upgrade", "echo");
        let accept =
            || response.switch(|s| s.add("echo", Handler::local_inbound(StreamHandler::new(echo))));
        loops.next().execute(accept).unwrap();
    });

    let mut client = Client::of(&server);
    client.send(crate::get("/a"));
    assert_eq!(client.response(), (200, "http".to_owned()));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly ");
    let end = client.read_until(|bytes| {
        let found = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        found.map(|at| at + 4)
    });
    let head = String::from_utf8(client.received.drain(..end).collect()).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client.stream.write_all(b"late").unwrap();
    client.read_until(|bytes| (bytes == b"early late").then_some(()));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), "early latebye\n");
    let metrics = server.metrics();
    assert_eq!((metrics.requests, metrics.connections), (2, 0));
    server.drain(Duration::from_secs(30)).wait().unwrap();
}

/// Sends everything back.
struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write_and_flush(bytes);
    }
}

#[test]
fn a_handler_takes_over_a_tunnel_of_a_roaming_group() {
    let pool = WorkerPool::builder("workers").max(4).build().unwrap();
    let group = tidegate_net::roaming("web", 1, &pool).unwrap();
    let server = serve(&group, "127.0.0.1:0", |request, response| {
        match request.field("accept") {
            // A handler that is not `Send` does not fit a channel that travels.
            Some(_) => response.switch(|s| s.add("echo", Handler::local_inbound(Echo))),
            None => response.switch(|s| s.add("echo", Handler::inbound(Echo))),
        }
    })
    .wait()
    .unwrap();
    let mut client = Client::of(&server);
    client.send("CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\nearly ");
    client.read_until(|bytes| bytes.ends_with(b"early ").then_some(()));
    client.send("late");
    client.stream.shutdown(Shutdown::Write).unwrap();
    let sent = client.rest();
    assert!(sent.starts_with("HTTP/1.1 200 OK\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nearly late"), "{sent}");

    let mut client = Client::of(&server);
    client.send("CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\nAccept: x\r\n\r\n");
    let sent = client.rest();
    assert!(sent.starts_with("HTTP/1.1 500 "), "{sent}");
    server.drain(Duration::from_secs(30)).wait().unwrap();
}

#[test]
fn a_body_that_is_read_after_the_change_does_not_end_the_connection() {
    let kept = Arc::<Mutex<Option<Body>>>::default();
    let of_service = Arc::clone(&kept);
    let server = start(move |request, response| {
        if request.upgrade().is_some() {
            let response = response.field("Upgrade", "echo");
            return response.switch(|s| s.add("echo", Handler::inbound(Echo)));
        }
        // Has responded, and reads later.
        response.stream_with_length(0).finish();
        *of_service.lock().unwrap() = Some(request.into_body());
    });
    let mut client = Client::of(&server);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    client
        .send("bodyGET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\none ");
    client.read_until(|bytes| bytes.ends_with(b"\r\n\r\none ").then_some(()));
    let mut body = kept.lock().unwrap().take().unwrap();
    let read = body.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(read, Poll::Ready(Some(Ok(data))) if data == "body"));
    drop(body);
    client.send("two");
    client.stream.shutdown(Shutdown::Write).unwrap();
    let got = client.rest();
    assert!(
        got.contains("HTTP/1.1 101 ") && got.ends_with("one two"),
        "{got}"
    );
    server.drain(Duration::from_secs(30)).wait().unwrap();
}
