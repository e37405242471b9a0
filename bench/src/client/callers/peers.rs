//! The peer on tokio's current_thread runtime, which runs on the main thread. It has a task for each
//! connection, the settings with which it is fastest, and no time limits.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::header::{ACCEPT as ACCEPT_FIELD, HeaderValue, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::Caller;
use crate::client::{ACCEPT, AGENT, BODY, CONNECTIONS};

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
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(CONNECTIONS as usize)
        .build(connector);
    let uri: Uri = format!("http://{to}/plaintext").parse().expect("a URI");
    Box::new(move |each| {
        let task = || {
            let (client, uri) = (client.clone(), uri.clone());
            async move {
                for _ in 0..each {
                    let response = client.request(request(uri.clone())).await;
                    read(response.expect("a response")).await;
                }
            }
        };
        runtime.block_on(async {
            let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(task())).collect();
            for task in tasks {
                task.await.expect("every call succeeds");
            }
        });
    })
}
