//! The peers on tokio's current_thread runtime, which runs on the main thread. Each has a task for
//! each connection, the settings with which it is fastest, and no time limits.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT as ACCEPT_FIELD, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::runtime::Runtime;

use super::Caller;
use crate::client::{ACCEPT, AGENT, BODY, CONNECTIONS};

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// Runs a task for each of `all` and returns their results.
fn run_all<T, F>(
    runtime: &Runtime,
    all: impl IntoIterator<Item = T>,
    task: impl Fn(T) -> F,
) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime.block_on(async {
        let tasks: Vec<_> = all.into_iter().map(|one| tokio::spawn(task(one))).collect();
        let mut results = Vec::with_capacity(tasks.len());
        for task in tasks {
            results.push(task.await.expect("every call succeeds"));
        }
        results
    })
}

async fn read(response: Response<Incoming>) {
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("the whole body");
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(length, BODY);
}

fn request(uri: Uri) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = uri;
    let fields = request.headers_mut();
    fields.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    fields.insert(ACCEPT_FIELD, HeaderValue::from_static(ACCEPT));
    request
}

pub(super) fn hyper(to: SocketAddr) -> Caller {
    let runtime = runtime();
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(CONNECTIONS as usize)
        .build(connector);
    let uri: Uri = format!("http://{to}/plaintext").parse().expect("a URI");
    Box::new(move |each| {
        let task = |_| {
            let (client, uri) = (client.clone(), uri.clone());
            async move {
                for _ in 0..each {
                    let response = client.request(request(uri.clone())).await;
                    read(response.expect("a response")).await;
                }
            }
        };
        run_all(&runtime, 0..CONNECTIONS, task);
    })
}

pub(super) fn hyper_bare(to: SocketAddr) -> Caller {
    let runtime = runtime();
    let connect = move |_| async move {
        let stream = tokio::net::TcpStream::connect(to).await;
        let stream = stream.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP option");
        let made = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.expect("no handshake with bytes");
        tokio::spawn(connection);
        sender
    };
    let mut senders: Vec<SendRequest<Empty<Bytes>>> = run_all(&runtime, 0..CONNECTIONS, connect);
    let host = HeaderValue::from_str(&to.to_string()).expect("a valid field");
    Box::new(move |each| {
        let task = |mut sender: SendRequest<Empty<Bytes>>| {
            let host = host.clone();
            async move {
                for _ in 0..each {
                    let mut request = request(Uri::from_static("/plaintext"));
                    request.headers_mut().insert(HOST, host.clone());
                    sender.ready().await.expect("an open connection");
                    let response = sender.send_request(request).await;
                    read(response.expect("a response")).await;
                }
                sender
            }
        };
        senders = run_all(&runtime, std::mem::take(&mut senders), task);
    })
}

pub(super) fn reqwest(to: SocketAddr) -> Caller {
    let runtime = runtime();
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .pool_max_idle_per_host(CONNECTIONS as usize)
        .build()
        .expect("a client");
    let url: reqwest::Url = format!("http://{to}/plaintext").parse().expect("a URL");
    Box::new(move |each| {
        let task = |_| {
            let (client, url) = (client.clone(), url.clone());
            async move {
                for _ in 0..each {
                    let request = client.get(url.clone());
                    let request = request
                        .header(USER_AGENT, HeaderValue::from_static(AGENT))
                        .header(ACCEPT_FIELD, HeaderValue::from_static(ACCEPT));
                    let mut response = request.send().await.expect("a response");
                    assert_eq!(response.status(), 200);
                    let mut length = 0;
                    while let Some(piece) = response.chunk().await.expect("the whole body") {
                        length += piece.len();
                    }
                    assert_eq!(length, BODY);
                }
            }
        };
        run_all(&runtime, 0..CONNECTIONS, task);
    })
}
