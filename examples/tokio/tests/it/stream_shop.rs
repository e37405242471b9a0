//! A gRPC service with one method for each kind of stream. Its code is written by hand, so that no
//! protocol compiler is needed.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::tokio_stream::Stream;
use tonic::server::{ClientStreamingService, Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::OnDrop;

pub(crate) const UNARY: &str = "/shop.Shop/Unary";
pub(crate) const TICKS: &str = "/shop.Shop/Ticks";
pub(crate) const UPLOAD: &str = "/shop.Shop/Upload";

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Reply<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Number {
    #[prost(uint32, tag = "1")]
    pub(crate) value: u32,
}

/// Reports each stream that has begun, with what is received when it is dropped.
#[derive(Clone)]
pub(crate) struct Shop(pub(crate) UnboundedSender<oneshot::Receiver<()>>);

impl Shop {
    fn begin(&self) -> OnDrop {
        let (guard, dropped) = OnDrop::new();
        self.0.send(dropped).unwrap();
        guard
    }
}

impl UnaryService<Number> for Shop {
    type Response = Number;
    type Future = Reply<Number>;

    fn call(&mut self, request: Request<Number>) -> Self::Future {
        Box::pin(async { Ok(Response::new(request.into_inner())) })
    }
}

/// One message, and no end.
pub(crate) struct Ticks {
    sent: bool,
    _guard: OnDrop,
}

impl Stream for Ticks {
    type Item = Result<Number, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match std::mem::replace(&mut self.sent, true) {
            false => Poll::Ready(Some(Ok(Number { value: 1 }))),
            true => Poll::Pending,
        }
    }
}

impl ServerStreamingService<Number> for Shop {
    type Response = Number;
    type ResponseStream = Ticks;
    type Future = Reply<Ticks>;

    fn call(&mut self, _: Request<Number>) -> Self::Future {
        let ticks = Ticks {
            sent: false,
            _guard: self.begin(),
        };
        Box::pin(async { Ok(Response::new(ticks)) })
    }
}

impl ClientStreamingService<Number> for Shop {
    type Response = Number;
    type Future = Reply<Number>;

    /// Reads one message, and then neither reads on nor responds.
    fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
        let shop = self.clone();
        Box::pin(async move {
            let mut stream = request.into_inner();
            let first = stream.message().await?;
            let _guard = shop.begin();
            assert!(first.is_some());
            pending().await
        })
    }
}

impl<B> Service<HttpRequest<B>> for Shop
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let shop = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Number, Number>::default());
            Ok(match request.uri().path() {
                TICKS => grpc.server_streaming(shop, request).await,
                UPLOAD => grpc.client_streaming(shop, request).await,
                _ => grpc.unary(shop, request).await,
            })
        })
    }
}
