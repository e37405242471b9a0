//! The service of the tests.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use tidegate_hyper::Http;
use tidegate_net::{Channel, EmbeddedChannel, NetGroup, Server};
use tidegate_promise::{Completion, Promise, promise};
use tidegate_testkit::Log;

/// The service of the tests. The path of a request says what it does.
#[derive(Clone, Default)]
pub(crate) struct Site {
    /// What happened, in order.
    pub(crate) log: Log<String>,
    /// What a request of `/wait` waits for.
    release: Arc<Mutex<Option<Completion<()>>>>,
    /// What a request of `/drain` drains.
    server: Arc<Mutex<Option<Server>>>,
}

/// Runs user code when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Says when the future or the body of a request is dropped.
struct Dropped(Log<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.push("dropped".to_owned());
    }
}

/// The body of a response.
enum Content {
    Whole(Full<Bytes>),
    /// The text "part", and then something else.
    Part {
        sent: bool,
        then: Then,
        _dropped: Dropped,
    },
}

/// What a body does after its first part.
#[derive(Clone, Copy)]
enum Then {
    Hangs,
    Panics,
    Fails,
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(whole) => {
                let frame = Pin::new(whole).poll_frame(cx);
                frame.map_err(|never| match never {})
            }
            Self::Part { sent, then, .. } => {
                if !std::mem::replace(sent, true) {
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from("part")))));
                }
                match then {
                    Then::Hangs => Poll::Pending,
                    Then::Panics => panic!("not this body"),
                    Then::Fails => Poll::Ready(Some(Err(io::Error::other("no more body")))),
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Part { .. } => SizeHint::default(),
        }
    }
}

impl Site {
    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Content>> {
        let path = request.uri().path().to_owned();
        let text = match path.as_str() {
            "/hello" => "hello".to_owned(),
            "/echo" => {
                let body = request.into_body().collect().await;
                let body = body.map_err(io::Error::other)?;
                format!("{} bytes", body.to_bytes().len())
            }
            "/first" => {
                let first = request.into_body().frame().await;
                format!("first: {}", first.is_some_and(|frame| frame.is_ok()))
            }
            "/large" => "x".repeat(8 << 20),
            "/panic" => panic!("not this request"),
            "/error" => return Err(io::Error::other("no answer")),
            "/hang" => {
                let _dropped = Dropped(self.log.clone());
                self.log.push("hangs".to_owned());
                pending().await
            }
            "/hold" => {
                let _body = request.into_body();
                self.log.push("holds".to_owned());
                pending().await
            }
            "/wait" => {
                let release = self.release.lock().unwrap().take();
                self.log.push("waits".to_owned());
                release.unwrap().await.unwrap();
                "released".to_owned()
            }
            "/hang/bomb" => {
                let _bomb = OnDrop(|| panic!("not this drop"));
                self.log.push("hangs".to_owned());
                pending().await
            }
            "/drain" => {
                let server = self.server.lock().unwrap().clone().unwrap();
                drop(server.drain(Duration::from_secs(3600)));
                drop(server.drain(Duration::from_secs(3600)));
                "drains".to_owned()
            }
            "/drain/now" => {
                let server = self.server.lock().unwrap().clone().unwrap();
                drop(server.drain(Duration::ZERO));
                pending().await
            }
            "/body/hangs" => return Ok(self.part(Then::Hangs)),
            "/body/panics" => return Ok(self.part(Then::Panics)),
            "/body/fails" => return Ok(self.part(Then::Fails)),
            other => format!("no {other}"),
        };
        Ok(Response::new(Content::Whole(Full::from(text))))
    }

    fn part(&self, then: Then) -> Response<Content> {
        Response::new(Content::Part {
            sent: false,
            then,
            _dropped: Dropped(self.log.clone()),
        })
    }

    /// Prepares a request of `/wait`. The promise releases it.
    pub(crate) fn hold_back(&self) -> Promise<()> {
        let (promise, released) = promise();
        *self.release.lock().unwrap() = Some(released);
        promise
    }

    pub(crate) fn serve(&self, http: Http, group: &NetGroup) -> Server {
        let site = self.clone();
        let make = move |_: &Channel| {
            let site = site.clone();
            service_fn(move |request| site.clone().answer(request))
        };
        let server = http.serve_with(group, "127.0.0.1:0", make).wait().unwrap();
        *self.server.lock().unwrap() = Some(server.clone());
        server
    }

    /// A site and its server, on a loop of their own.
    pub(crate) fn served() -> (Self, Server) {
        let site = Self::default();
        let server = site.serve(Http::new(), &crate::group());
        (site, server)
    }

    /// Serves one channel in memory.
    pub(crate) fn embedded(&self, http: Http) -> EmbeddedChannel {
        let site = self.clone();
        let handler = http.handlers(move |_: &Channel| {
            let site = site.clone();
            service_fn(move |request| site.clone().answer(request))
        });
        EmbeddedChannel::new(|p| p.add("http", handler())).unwrap()
    }
}
