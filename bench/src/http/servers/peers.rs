//! The peers: hyper on tokio's current_thread runtime, and may_minihttp with one worker.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use futures::Stream;
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER as SERVER_FIELD};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use may_minihttp::HttpService;

use super::{HELLO, PIECES, SERVER, STREAM, TEXT, piece};
use crate::hyper::tokio_server;
use crate::served::Running;

/// hyper, with one flush per read and without time limits.
pub(super) fn hyper() -> Running {
    tokio_server(async |listener| {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let mut http1 = http1::Builder::new();
            http1.pipeline_flush(true);
            let connection = http1.serve_connection(TokioIo::new(stream), service_fn(respond));
            tokio::spawn(connection);
        }
    })
}

type Pieces<S> = Either<Full<Bytes>, StreamBody<S>>;

async fn respond(
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Pieces<impl Stream<Item = Result<Frame<Bytes>, Infallible>>>>, Infallible>
{
    if request.uri().path() == STREAM {
        let frames = (0..PIECES).map(|_| Ok(Frame::data(piece())));
        let body = StreamBody::new(futures::stream::iter(frames));
        return Ok(hyper::Response::new(Either::Right(body)));
    }
    let mut response = hyper::Response::new(Either::Left(Full::from(HELLO)));
    let fields = response.headers_mut();
    fields.insert(SERVER_FIELD, HeaderValue::from_static(SERVER));
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    Ok(response)
}

/// The service of may_minihttp, which cannot stream a body.
#[derive(Clone)]
struct MayHello;

impl HttpService for MayHello {
    fn call(
        &mut self,
        request: may_minihttp::Request<'_, '_, '_>,
        response: &mut may_minihttp::Response<'_>,
    ) -> io::Result<()> {
        if request.path() == STREAM {
            response.status_code(501, "Not Implemented");
            return Ok(());
        }
        // It adds a field `Server` by itself.
        response.header("Content-Type: text/plain").body(HELLO);
        Ok(())
    }
}

pub(super) fn may() -> Running {
    may::config().set_workers(1);
    let address = free_address();
    let server = may_minihttp::HttpServer(MayHello).start(address);
    let server = server.expect("the port is free");
    // The handle of the accepting coroutine, which runs until the process ends.
    std::mem::forget(server);
    Running::peer(address)
}

/// Returns an address that was free a moment ago: may_minihttp does not tell which port it got.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}
