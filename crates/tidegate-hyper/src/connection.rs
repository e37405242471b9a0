//! One connection: finds out what its client speaks, serves it, and ends it when the server drains.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use pin_project_lite::pin_project;
use tidegate_core::Unhandled;
use tidegate_loop::EventLoop;
use tidegate_net::{Channel, DrainSignal, LocalStream};

use crate::executor::LoopExecutor;
use crate::http::Http;
use crate::io::{LoopIo, Protocol};
use crate::timer::{LoopSleep, LoopTimer};

/// An error of any type, as hyper takes it.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

pin_project! {
    /// The future of one connection. An [`HttpHandler`](crate::HttpHandler) runs it.
    pub struct HttpConnection<S>
    where
        S: HttpService<Incoming>,
    {
        channel: Channel,
        drain: DrainSignal,
        // `true` if the connection was told to finish.
        told: bool,
        #[pin]
        stage: Stage<S>,
    }
}

pin_project! {
    #[project = StageView]
    enum Stage<S>
    where
        S: HttpService<Incoming>,
    {
        // Nothing is known of the client yet.
        Fresh {
            fresh: Option<Fresh<S>>,
        },
        Http1 {
            #[pin]
            connection: http1::Connection<LoopIo, S>,
        },
        // In a box: the others are smaller, and there are more of them.
        Http2 {
            connection: Pin<Box<http2::Connection<LoopIo, S, LoopExecutor>>>,
        },
    }
}

/// A connection whose client has not shown what it speaks.
struct Fresh<S> {
    io: LoopIo,
    service: S,
    http: Arc<Http>,
    timer: LoopTimer,
    /// The time limit for the first bytes.
    limit: Option<LoopSleep>,
    /// `true` if the server drains, and what had arrived by then was looked for.
    looked: bool,
}

impl<S> Fresh<S> {
    /// Returns what the client speaks, or `None` if the connection ends here.
    fn poll_protocol(&mut self, cx: &mut Context<'_>, drains: bool) -> Poll<Option<Protocol>> {
        match self.io.poll_protocol(cx) {
            Poll::Ready(Ok(Protocol::Nothing) | Err(_)) => return Poll::Ready(None),
            Poll::Ready(Ok(protocol)) => return Poll::Ready(Some(protocol)),
            Poll::Pending => {}
        }
        if drains && !self.io.has_unread() {
            if self.looked {
                // No request has begun: there is nothing to finish.
                return Poll::Ready(None);
            }
            // A request may have arrived that the loop has not read yet: one more turn.
            self.looked = true;
            cx.waker().wake_by_ref();
        }
        if let Some(limit) = &mut self.limit {
            ready!(Pin::new(limit).poll(cx));
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

impl<S> HttpConnection<S>
where
    S: HttpService<Incoming>,
{
    pub(crate) fn new(stream: LocalStream, service: S, http: Arc<Http>) -> Self {
        let (channel, drain) = (stream.channel(), stream.drain_signal());
        let timer = LoopTimer::current();
        let limit = http.first_bytes().map(|limit| timer.after(limit));
        let fresh = Some(Fresh {
            io: LoopIo::new(stream),
            service,
            http,
            timer,
            limit,
            looked: false,
        });
        Self {
            channel,
            drain,
            told: false,
            stage: Stage::Fresh { fresh },
        }
    }
}

impl<S> Future for HttpConnection<S>
where
    S: HttpService<Incoming, Error: Into<BoxError>, Future: 'static>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if !this.channel.is_active() {
            // No response can be sent any more, so the requests end too.
            return Poll::Ready(());
        }
        let drains = *this.told || Pin::new(this.drain).poll(cx).is_ready();
        if let StageView::Fresh { fresh } = this.stage.as_mut().project() {
            let Some(known) = fresh else {
                return Poll::Ready(());
            };
            let protocol = ready!(known.poll_protocol(cx, drains));
            let (Some(protocol), Some(known)) = (protocol, fresh.take()) else {
                return Poll::Ready(());
            };
            this.stage.set(begin(known, protocol));
        }
        let tell = drains && !std::mem::replace(this.told, drains);
        let stage = this.stage.as_mut();
        let polled = match stage.project() {
            StageView::Fresh { .. } => return Poll::Ready(()),
            StageView::Http1 { mut connection } => {
                let polled = connection.as_mut().poll(cx);
                // After the poll: a request that has arrived is served, not cut off.
                if tell && polled.is_pending() {
                    connection.as_mut().graceful_shutdown();
                    connection.poll(cx)
                } else {
                    polled
                }
            }
            StageView::Http2 { connection } => {
                let polled = connection.as_mut().poll(cx);
                if tell && polled.is_pending() {
                    connection.as_mut().graceful_shutdown();
                    connection.as_mut().poll(cx)
                } else {
                    polled
                }
            }
        };
        polled.map(|result| {
            if let Err(why) = result {
                report(&why);
            }
        })
    }
}

/// Reports an error of the service or of a response body to the hook for unhandled errors. Errors of
/// the client only end its connection.
#[cold]
fn report(why: &hyper::Error) {
    if is_of_client(why) {
        return;
    }
    let Some(home) = EventLoop::current() else {
        return;
    };
    let mut message = why.to_string();
    let mut source = why.source();
    while let Some(deeper) = source {
        message.push_str(": ");
        message.push_str(&deeper.to_string());
        source = deeper.source();
    }
    let what = Unhandled::ChannelError { message: &message };
    home.executor().unhandled(&what);
}

/// Returns `true` for an error of the connection, also if a service passed it on.
fn is_of_client(why: &hyper::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(why);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && !error.is_user()
        {
            return true;
        }
        next = match error.downcast_ref::<io::Error>() {
            // Its `source` skips the error that it wraps.
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    false
}

fn begin<S>(fresh: Fresh<S>, protocol: Protocol) -> Stage<S>
where
    S: HttpService<Incoming, Error: Into<BoxError>, Future: 'static>,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    let Fresh {
        io,
        service,
        http,
        timer,
        ..
    } = fresh;
    match protocol {
        Protocol::Http2 => {
            let connection = http.http2_by(timer).serve_connection(io, service);
            Stage::Http2 {
                connection: Box::pin(connection),
            }
        }
        _ => Stage::Http1 {
            connection: http.http1_by(timer).serve_connection(io, service),
        },
    }
}

tidegate_core::debug_fields!([S: HttpService<Incoming>] HttpConnection<S>);
