//! The servers: hyper and axum on our loop, and on tokio. Each runs until the process ends.

use std::convert::Infallible;
use std::net::TcpListener;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_hyper::Http;
use tidegate_net::NetGroup;

use crate::cpus::pin;
use crate::served::{Ours, Running};

const HELLO: &str = "Hello, world!";

/// The kind of server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    HyperOurs,
    HyperTokio,
    AxumOurs,
    AxumTokio,
}

/// Starts a server on the first CPU.
pub(super) fn start(kind: Kind) -> Running {
    pin(0);
    match kind {
        Kind::HyperOurs => {
            ours(|group| Http::new().serve_with(group, "127.0.0.1:0", |_| service_fn(hello)))
        }
        Kind::AxumOurs => ours(|group| tidegate_hyper::serve(group, "127.0.0.1:0", router())),
        Kind::HyperTokio => tokio_server(over_tokio),
        Kind::AxumTokio => tokio_server(async |listener| {
            axum::serve(listener, router()).await.expect("it serves");
        }),
    }
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(HELLO)))
}

fn router() -> Router {
    Router::new().route("/", get(|| async { HELLO }))
}

fn ours(
    serve: impl FnOnce(&NetGroup) -> tidegate_promise::Completion<tidegate_net::Server>,
) -> Running {
    let group = tidegate_net::pinned("http", 1).expect("a poller");
    let server = serve(&group).wait().expect("a free port");
    Running::ours(server.local_addr(), Ours::Pinned(group))
}

/// Runs `serve` on a runtime of one thread.
pub(crate) fn tokio_server(
    serve: impl AsyncFnOnce(tokio::net::TcpListener) + Send + 'static,
) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket option");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a reactor");
            serve(listener).await;
        });
    });
    Running::peer(address)
}

/// A task for each connection, with the timer that our server has too.
async fn over_tokio(listener: tokio::net::TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let mut http1 = http1::Builder::new();
        http1.timer(TokioTimer::new());
        let connection = http1.serve_connection(TokioIo::new(stream), service_fn(hello));
        tokio::spawn(connection);
    }
}
