//! Routers of axum on event loops, drained in hostile states.

use std::convert::Infallible;
use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use tidegate::hyper::serve;
use tidegate::net::{NetGroup, Server, pinned};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tonic::codegen::tokio_stream::Stream;

use crate::{OnDrop, cut, tokio};

type Begun = UnboundedSender<oneshot::Receiver<()>>;

fn begin(send: &Begun) -> OnDrop {
    let (guard, dropped) = OnDrop::new();
    send.send(dropped).unwrap();
    guard
}

/// Bytes without an end.
struct Endless {
    _guard: OnDrop,
}

impl Stream for Endless {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(Bytes::from_static(&[b'x'; 4096]))))
    }
}

async fn wait_for_body(send: Begun, request: Request<Body>) -> String {
    let _guard = begin(&send);
    let body = request.into_body().collect().await;
    format!("{}", body.is_ok())
}

async fn hang(send: Begun) -> String {
    let _guard = begin(&send);
    pending().await
}

/// Serves handlers that report when they begin, and when they are dropped.
fn site() -> (NetGroup, Server, UnboundedReceiver<oneshot::Receiver<()>>) {
    let (send, begun) = unbounded_channel();
    let (endless, waits, hangs) = (send.clone(), send.clone(), send);
    let endless = move || async move {
        Body::from_stream(Endless {
            _guard: begin(&endless),
        })
    };
    let waits = move |request| wait_for_body(waits.clone(), request);
    let hangs = move || hang(hangs.clone());
    let routes: Router = Router::new()
        .route("/endless", get(endless))
        .route("/waits", post(waits))
        .route("/hangs", get(hangs));
    let group = pinned("http", 1).unwrap();
    let server = serve(&group, "127.0.0.1:0", routes).wait().unwrap();
    (group, server, begun)
}

#[test]
fn requests_that_never_end_are_dropped_at_the_deadline() {
    for request in [
        // A body that the client never reads.
        "GET /endless HTTP/1.1\r\nhost: a\r\n\r\n",
        // A body that the client never finishes.
        "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhello",
        "POST /waits HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "GET /hangs HTTP/1.1\r\nhost: a\r\n\r\n",
        // Requests behind one that hangs.
        "GET /hangs HTTP/1.1\r\nhost: a\r\n\r\nGET /hangs HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let (runtime, (_group, server, mut begun)) = (tokio(), site());
        let mut client = TcpStream::connect(server.local_addr()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let dropped = runtime.block_on(begun.recv()).unwrap();
        assert_eq!(cut(&server), 1, "{request}");
        runtime.block_on(dropped).unwrap();
        assert!(begun.try_recv().is_err(), "{request}: one has begun");
        // The connection has ended. A reset is an end as well: bytes were lost.
        let _ = client.read_to_end(&mut Vec::new());
    }
}

#[test]
fn a_client_that_leaves_lets_the_drain_end() {
    for request in [
        "GET /endless HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhello",
        "GET /hangs HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let (runtime, (_group, server, mut begun)) = (tokio(), site());
        let mut client = TcpStream::connect(server.local_addr()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let dropped = runtime.block_on(begun.recv()).unwrap();
        let drained = server.drain(std::time::Duration::MAX);
        drop(client);
        let report = drained.wait().unwrap();
        assert!(report.closed_at_deadline.is_empty(), "{request}: {report}");
        runtime.block_on(dropped).unwrap();
    }
}
