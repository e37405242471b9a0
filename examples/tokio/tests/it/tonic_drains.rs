//! Routers of tonic on event loops, drained in hostile states.

use std::future::pending;
use std::time::Duration;

use tidegate::hyper::serve;
use tidegate::net::{NetGroup, Server, pinned};
use tidegate::prelude::*;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream;
use tonic::service::{AxumRouter, Routes};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Layer;

use crate::stream_shop::{Number, Shop, TICKS, UNARY, UPLOAD};
use crate::{cut, tokio};

/// A server of the shop. Its streams are behind a command that holds a permit until they end.
struct Site {
    group: NetGroup,
    server: Server,
    streams: Command,
    begun: UnboundedReceiver<oneshot::Receiver<()>>,
}

impl Site {
    fn new(loops: usize) -> Self {
        let isolation = Isolation::builder().build().unwrap();
        let streams = Command::builder("streams").group("shop").permits(100);
        let streams: Command = streams.no_timeout().build(&isolation).unwrap();
        let (send, begun) = unbounded_channel();
        let shop = Shop(send);
        let routes = AxumRouter::new()
            .route_service(UNARY, shop.clone())
            .route_service(TICKS, streams.layer().respond().layer(shop.clone()))
            .route_service(UPLOAD, streams.layer().respond().layer(shop));
        let group = pinned("grpc", loops).unwrap();
        let server = serve(&group, "127.0.0.1:0", Routes::from(routes));
        let server = server.wait().unwrap();
        Self {
            group,
            server,
            streams,
            begun,
        }
    }

    /// Returns how many streams hold a permit, once the loops have finished what they do now.
    fn active(&self) -> usize {
        self.group.iter().for_each(|one| one.settle());
        self.streams.snapshot().active
    }

    fn endpoint(&self) -> Endpoint {
        let address = format!("http://{}", self.server.local_addr());
        Endpoint::from_shared(address).unwrap()
    }

    /// Waits until the server has begun a stream. Returns what is received when it is dropped.
    async fn begun(&mut self) -> oneshot::Receiver<()> {
        self.begun.recv().await.unwrap()
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut client = Grpc::new(channel);
    let ready = client.ready().await;
    ready.map_err(|why| Status::unavailable(why.to_string()))?;
    Ok(client)
}

fn codec() -> ProstCodec<Number, Number> {
    ProstCodec::default()
}

async fn unary(channel: Channel, value: u32) -> Result<u32, Status> {
    let request = Request::new(Number { value });
    let path = PathAndQuery::from_static(UNARY);
    let answer = ready(channel).await?.unary(request, path, codec()).await?;
    Ok(answer.into_inner().value)
}

async fn ticks(channel: Channel) -> Result<Streaming<Number>, Status> {
    let (request, path) = (Request::new(Number { value: 0 }), TICKS);
    let path = PathAndQuery::from_static(path);
    let mut client = ready(channel).await?;
    let stream = client.server_streaming(request, path, codec()).await;
    stream.map(Response::into_inner)
}

/// Sends one message and never ends its stream.
async fn upload(channel: Channel) -> Result<u32, Status> {
    let (send, receive) = tokio::sync::mpsc::channel(1);
    send.send(Number { value: 1 }).await.unwrap();
    let endless = futures_of(receive);
    let path = PathAndQuery::from_static(UPLOAD);
    let request = Request::new(endless);
    let mut client = ready(channel).await?;
    let answer = client.client_streaming(request, path, codec()).await;
    drop(send);
    Ok(answer?.into_inner().value)
}

/// Makes a stream of a receiver.
fn futures_of(
    mut receiver: tokio::sync::mpsc::Receiver<Number>,
) -> impl tokio_stream::Stream<Item = Number> + Send + 'static {
    struct Poll<F>(F);
    impl<F> tokio_stream::Stream for Poll<F>
    where
        F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<Number>> + Unpin,
    {
        type Item = Number;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Number>> {
            (self.0)(cx)
        }
    }
    Poll(move |cx: &mut std::task::Context<'_>| receiver.poll_recv(cx))
}

#[test]
fn a_stream_that_never_ends_is_cut_at_the_deadline_and_gives_its_permit_back() {
    let (runtime, mut site) = (tokio(), Site::new(1));
    let (mut stream, dropped) = runtime.block_on(async {
        let channel = site.endpoint().connect().await.unwrap();
        let mut stream = ticks(channel).await.unwrap();
        let first = stream.message().await.unwrap();
        assert_eq!(first, Some(Number { value: 1 }));
        (stream, site.begun().await)
    });
    assert_eq!(site.active(), 1);
    assert_eq!(cut(&site.server), 1);
    runtime.block_on(dropped).unwrap();
    assert_eq!(site.active(), 0);
    assert!(runtime.block_on(stream.message()).is_err(), "cut off");
}

#[test]
fn a_drain_waits_for_a_stream_and_refuses_new_calls_on_its_connection() {
    let (runtime, mut site) = (tokio(), Site::new(1));
    let (channel, stream) = runtime.block_on(async {
        let channel = site.endpoint().connect().await.unwrap();
        let mut stream = ticks(channel.clone()).await.unwrap();
        stream.message().await.unwrap();
        (channel, stream)
    });
    let drained = site.server.drain(Duration::MAX);
    // The client makes a new connection after the GOAWAY, which nobody accepts.
    while runtime.block_on(unary(channel.clone(), 1)).is_ok() {}
    assert!(!drained.is_done());
    let dropped = runtime.block_on(site.begun());
    drop(stream);
    runtime.block_on(dropped).unwrap();
    let report = drained.wait().unwrap();
    assert!(report.closed_at_deadline.is_empty(), "{report}");
    assert_eq!(site.active(), 0);
}

#[test]
fn a_request_half_way_is_dropped_at_the_deadline() {
    let (runtime, mut site) = (tokio(), Site::new(1));
    let channel = runtime.block_on(site.endpoint().connect()).unwrap();
    let call = runtime.spawn(upload(channel));
    let dropped = runtime.block_on(site.begun());
    assert_eq!(cut(&site.server), 1);
    runtime.block_on(dropped).unwrap();
    assert_eq!(site.active(), 0);
    assert!(runtime.block_on(call).unwrap().is_err());
}

#[test]
fn a_drain_while_clients_connect_answers_or_fails_each_call() {
    for deadline in [Duration::ZERO, Duration::MAX] {
        let (runtime, site) = (tokio(), Site::new(2));
        let clients: Vec<_> = (0..8).map(|_| site.endpoint()).collect();
        let (send, mut first) = unbounded_channel();
        let calls: Vec<_> = clients
            .into_iter()
            .map(|endpoint| {
                let send = send.clone();
                runtime.spawn(async move {
                    let mut answered = 0;
                    // Each call has a connection of its own.
                    while let Ok(channel) = endpoint.connect().await {
                        let Ok(value) = unary(channel, answered).await else {
                            break;
                        };
                        assert_eq!(value, answered);
                        answered += 1;
                        let _ = send.send(());
                    }
                    answered
                })
            })
            .collect();
        runtime.block_on(first.recv()).unwrap();
        let report = site.server.drain(deadline).wait().unwrap();
        assert_eq!((site.server.connections(), report.still_running), (0, 0));
        let mut answered = 0;
        for call in calls {
            answered += runtime.block_on(call).unwrap();
        }
        assert!(answered > 0);
    }
}

#[test]
fn a_runtime_that_is_dropped_in_mid_call_ends_its_connections() {
    let mut site = Site::new(1);
    let runtime = tokio();
    let channel = runtime.block_on(site.endpoint().connect()).unwrap();
    runtime.spawn(async move {
        let _stream = ticks(channel).await;
        pending::<()>().await;
    });
    let dropped = runtime.block_on(site.begun());
    drop(runtime);
    tokio().block_on(dropped).unwrap();
    let report = site.server.drain(Duration::MAX).wait().unwrap();
    assert!(report.closed_at_deadline.is_empty(), "{report}");
    assert_eq!(site.active(), 0);
}
