//! The messages, the client and the server of the service `shop.Shop`. `tonic-prost-build` generates
//! such code from a `.proto` file:
//!
//! ```proto
//! service Shop {
//!   rpc Price(Article) returns (Amount);
//!   rpc Report(Article) returns (Amount);
//! }
//! message Article { uint32 id = 1; }
//! message Amount { uint64 cents = 1; }
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{Request, Response};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::{Body as HttpBody, Bytes, Service, StdError};
use tonic::server::UnaryService;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

pub const PRICE: &str = "/shop.Shop/Price";
pub const REPORT: &str = "/shop.Shop/Report";

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Article {
    #[prost(uint32, tag = "1")]
    pub id: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Amount {
    #[prost(uint64, tag = "1")]
    pub cents: u64,
}

/// The methods of the service.
pub trait Shop: Send + Sync + 'static {
    fn price(&self, article: Article) -> impl Future<Output = Result<Amount, Status>> + Send;
    fn report(&self, article: Article) -> impl Future<Output = Result<Amount, Status>> + Send;
}

/// The service as tonic calls it.
pub struct ShopServer<T>(Arc<T>);

impl<T> ShopServer<T> {
    pub fn new(shop: T) -> Self {
        Self(Arc::new(shop))
    }
}

impl<T> Clone for ShopServer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Shop, B> Service<Request<B>> for ShopServer<T>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = Method(Arc::clone(&self.0), request.uri().path() == REPORT);
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            Ok(grpc.unary(method, request).await)
        })
    }
}

/// One method; `true` is `Report`.
struct Method<T>(Arc<T>, bool);

impl<T: Shop> UnaryService<Article> for Method<T> {
    type Response = Amount;
    type Future = BoxFuture<Result<tonic::Response<Amount>, Status>>;

    fn call(&mut self, request: tonic::Request<Article>) -> Self::Future {
        let (shop, is_report) = (Arc::clone(&self.0), self.1);
        let article = request.into_inner();
        Box::pin(async move {
            let amount = match is_report {
                true => shop.report(article).await,
                false => shop.price(article).await,
            };
            amount.map(tonic::Response::new)
        })
    }
}

/// A client of the service.
#[derive(Clone)]
pub struct ShopClient<S>(Grpc<S>);

impl<S> ShopClient<S>
where
    S: GrpcService<Body>,
    S::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <S::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    pub fn new(service: S) -> Self {
        Self(Grpc::new(service))
    }

    pub async fn price(&mut self, request: tonic::Request<Article>) -> Result<Amount, Status> {
        self.unary(PRICE, request).await
    }

    pub async fn report(&mut self, request: tonic::Request<Article>) -> Result<Amount, Status> {
        self.unary(REPORT, request).await
    }

    async fn unary(
        &mut self,
        path: &'static str,
        request: tonic::Request<Article>,
    ) -> Result<Amount, Status> {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::new(Code::Unavailable, error.into().to_string()))?;
        let path = PathAndQuery::from_static(path);
        let answer = self.0.unary(request, path, ProstCodec::default()).await;
        answer.map(tonic::Response::into_inner)
    }
}
