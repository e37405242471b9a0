//! Asynchronous services over sockets.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tidegate_http::{Body, HttpServer, Limits, serve_async};
use tidegate_promise::promise;

use crate::{Client, get};

async fn echo(request: Request<Body>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Response::new(Full::from([path.as_bytes(), &body].concat()))
}

#[test]
fn a_function_serves_many_connections_on_two_loops() {
    let group = tidegate_net::pinned("web", 2).unwrap();
    let server = serve_async(&group, "127.0.0.1:0", echo).wait().unwrap();
    let mut clients: Vec<_> = (0..20).map(|_| Client::of(&server)).collect();
    for round in 0..10 {
        for (number, client) in clients.iter_mut().enumerate() {
            let post = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
            client.send(get(&format!("/{round}/{number}")) + post);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response(), (200, format!("/{round}/{number}")));
            assert_eq!(client.response(), (200, "/pab".to_owned()));
        }
    }
    assert_eq!(server.metrics().requests, 400);
    server.drain(Duration::from_secs(30)).wait().unwrap();
}

#[test]
fn a_drain_waits_for_futures_of_other_threads() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let server = HttpServer::builder(&group)
        .limits(Limits::default())
        .serve_async("127.0.0.1:0", async move |_| {
            let (go, gone) = promise::<Bytes>();
            begun.send(go).unwrap();
            Response::new(Full::new(gone.await.unwrap()))
        })
        .wait()
        .unwrap();
    let mut client = Client::of(&server);
    client.send(get("/"));
    let go = has_begun.recv_timeout(crate::PATIENCE).unwrap();
    let drained = server.drain(Duration::from_secs(30));
    go.succeed(Bytes::from("late")).unwrap();
    let rest = client.rest();
    assert!(rest.contains("\r\nConnection: close\r\n"), "{rest}");
    assert!(rest.ends_with("late"), "{rest}");
    drained.wait().unwrap();
}
