//! Tests of asynchronous services over an embedded channel.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use tidegate_net::Channel;

use super::AsyncService;
use crate::server::tests::{Client, closing, get, ok};
use crate::server::{Body, BodyError, Limits, Service};

const FAILED: &str = "500 Internal Server Error";

fn client<F, B>(respond: F) -> Client
where
    F: AsyncFn(Request<Body>) -> Response<B> + Send + Sync + 'static,
    B: HttpBody + 'static,
    B::Error: Into<super::BoxError>,
    AsyncService<F>: Service,
{
    let service = AsyncService {
        respond: Arc::new(respond),
        running: Vec::new(),
    };
    Client::with_service(Limits::default(), service)
}

fn text(text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(text.into()))
}

/// Frames that a test supplies, one after the other.
#[derive(Clone, Default)]
struct Source(Arc<Mutex<Supply>>);

#[derive(Default)]
struct Supply {
    frames: Vec<Option<Frame<Bytes>>>,
    waker: Option<Waker>,
}

impl Source {
    fn push(&self, frame: Option<Frame<Bytes>>) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.frames.push(frame);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn data(&self, data: impl Into<Bytes>) {
        self.push(Some(Frame::data(data.into())));
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().frames.len()
    }
}

impl HttpBody for Source {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let mut state = self.0.lock().unwrap();
        if state.frames.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.frames.remove(0).map(Ok))
    }
}

/// A body that fails or panics after its first piece.
struct Broken {
    first: Option<&'static str>,
    panics: bool,
}

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(first)))));
        }
        assert!(!self.panics, "told to");
        Poll::Ready(Some(Err(std::io::Error::other("told to"))))
    }
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    let mut client = client(async |request: Request<Body>| {
        assert_eq!(request.method(), "PURGE");
        assert_eq!(request.uri(), "/a|^{b}?c=|^`{d}\\");
        assert_eq!(request.version(), Version::HTTP_11);
        let fields = request.headers();
        assert_eq!(fields.get_all("x-a").iter().count(), 2);
        assert_eq!(fields["x-b"], b"\xe4"[..]);
        assert!(request.extensions().get::<Channel>().is_some());
        assert!(request.body().is_end_stream());
        text("fine")
    });
    // What browsers send without encoding is a `Uri` too.
    let mut request = b"PURGE /a|^{b}?c=|^`{d}\\ HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n".to_vec();
    request.extend_from_slice(b"x-a:\r\nX-B: \xe4\r\n\r\n");
    assert_eq!(client.send(request), ok("fine"));
    assert!(client.is_open());
}

#[test]
fn responses_keep_their_order() {
    let gates: [Source; 2] = Default::default();
    let of_service = gates.clone();
    let mut client = client(async move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let gate = match &path[..] {
            "/0" => &of_service[0],
            _ => &of_service[1],
        };
        let mut gate = gate.clone();
        gate.frame().await;
        text(path)
    });
    assert_eq!(client.send(get("/0") + &get("/1")), "");
    gates[1].push(None);
    assert_eq!(client.responses(), "");
    gates[0].push(None);
    assert_eq!(client.responses(), ok("/0") + &ok("/1"));
}

#[test]
fn a_body_is_read_to_its_end_with_its_trailers() {
    let mut client = client(async |request: Request<Body>| {
        assert_eq!(request.body().size_hint().exact(), None);
        let body = request.into_body().collect().await.unwrap();
        let sum = body.trailers().unwrap()["sum"].clone();
        let body = [&body.to_bytes()[..], sum.as_bytes()].concat();
        text(body)
    });
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(client.send(head), "");
    assert_eq!(client.send("3\r\nabc\r\n"), "");
    assert_eq!(client.send("0\r\nSum: 3\r\n\r\n"), ok("abc3"));
}

#[test]
fn the_size_of_a_body_is_known() {
    let mut client = client(async |request: Request<Body>| {
        let mut body = request.into_body();
        let mut sizes = vec![body.size_hint().exact()];
        while let Some(frame) = body.frame().await {
            frame.unwrap();
            sizes.push(body.size_hint().exact());
        }
        text(format!("{sizes:?}"))
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    assert_eq!(client.send("cde"), ok("[Some(5), Some(3), Some(0)]"));
}

#[test]
fn a_function_that_does_not_read_stops_its_client() {
    let gate = Source::default();
    let of_service = gate.clone();
    let mut client = client(async move |request: Request<Body>| {
        of_service.clone().frame().await;
        let body = request.into_body().collect().await.unwrap();
        text(body.to_bytes().len().to_string())
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
    for _ in 0..30 {
        client.socket.receive(vec![b'x'; 10_000]);
        client.socket.run();
    }
    assert!(client.metrics().received_bytes < 200_000);
    gate.push(None);
    assert_eq!(client.responses(), ok("300000"));
}

#[test]
fn the_framing_follows_from_the_body() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let source = Source::default();
    let of_service = source.clone();
    let mut client = client(async move |_| Response::new(of_service.clone()));
    source.data("ab");
    assert_eq!(client.send(get("/")), format!("{chunked}2\r\nab\r\n"));
    source.data("cde");
    assert_eq!(client.responses(), "3\r\ncde\r\n");
    let mut trailers = HeaderMap::new();
    trailers.append("sum", "5".parse().unwrap());
    source.push(Some(Frame::trailers(trailers)));
    assert_eq!(client.responses(), "0\r\nsum: 5\r\n\r\n");
    // The head does not wait for the first piece.
    assert_eq!(client.send(get("/")), chunked);
    source.push(None);
    assert_eq!(client.responses(), "0\r\n\r\n");
    assert!(client.is_open());
}

#[test]
fn a_declared_length_is_kept() {
    let source = Source::default();
    let of_service = source.clone();
    let mut client = client(async move |_| {
        let response = Response::builder().header("content-length", "5");
        let response = response.header("transfer-encoding", "gzip");
        response.body(of_service.clone()).unwrap()
    });
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    source.data("ab");
    assert_eq!(client.send(get("/")), format!("{head}ab"));
    source.data("cde");
    source.push(None);
    assert_eq!(client.responses(), "cde");
    // Less than declared: the client must not take it for the whole.
    source.data("ab");
    source.push(None);
    assert_eq!(client.send(get("/")), format!("{head}ab"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().mistakes, 1);
}

#[test]
fn head_gets_the_length_and_no_body() {
    let mut client = client(async |request: Request<Body>| match request.uri().path() {
        "/full" => text("hello"),
        _ => {
            let response = Response::builder().header("content-length", "17");
            response.body(Full::default()).unwrap()
        }
    });
    for (path, length) in [("/full", 5), ("/declared", 17)] {
        let sent = client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(sent, head);
    }
    assert_eq!(client.send(get("/full")), ok("hello"));
}

#[test]
fn a_status_without_a_body_has_none() {
    let mut client = client(async |_| {
        Response::builder()
            .status(204)
            .body(Full::new(Bytes::from("dropped")))
            .unwrap()
    });
    assert_eq!(client.send(get("/")), "HTTP/1.1 204 No Content\r\n\r\n");
    assert!(client.is_open());
}

#[test]
fn a_client_that_does_not_read_stops_its_function() {
    let source = Source::default();
    let of_service = source.clone();
    let mut client = client(async move |_| Response::new(of_service.clone()));
    client.socket.set_room(Some(0));
    for _ in 0..50 {
        source.data(vec![b'x'; 10_000]);
    }
    source.push(None);
    client.send(get("/"));
    assert!(source.len() > 30, "{} pieces are left", source.len());
    client.socket.set_room(None);
    let sent = client.responses().len();
    assert!(sent > 500_000, "{sent} bytes");
    assert_eq!(source.len(), 0);
    assert!(client.is_open());
}

#[test]
fn a_future_that_panics_is_status_500() {
    let mut client = client(async |request: Request<Body>| {
        assert!(request.uri() != "/bad", "told to");
        text("fine")
    });
    let sent = client.send(get("/good") + &get("/bad") + &get("/good"));
    assert_eq!(sent, ok("fine") + &closing(FAILED));
    assert!(!client.is_open());
    assert_eq!(client.metrics().panics, 1);
    assert_eq!(client.metrics().dropped_responses, 0);
}

#[test]
fn a_body_that_fails_ends_the_connection() {
    for panics in [false, true] {
        let mut client = client(async move |request: Request<Body>| {
            let first = (request.uri() == "/late").then_some("part");
            Response::new(Broken { first, panics })
        });
        assert_eq!(client.send(get("/early")), closing(FAILED));
        assert!(!client.is_open());
        let mut client = self::client(async move |_| {
            let first = Some("part");
            Response::new(Broken { first, panics })
        });
        let sent = client.send(get("/late"));
        assert!(!sent.contains("0\r\n\r\n"), "{sent}");
        assert!(!client.is_open());
    }
}

#[test]
fn a_response_that_cannot_be_sent_is_status_500() {
    for path in ["/status", "/lengths", "/length"] {
        let mut client = client(async |request: Request<Body>| {
            let response = match request.uri().path() {
                "/status" => Response::builder().status(101),
                "/lengths" => Response::builder()
                    .header("content-length", "1")
                    .header("content-length", "2"),
                _ => Response::builder().header("content-length", "+1"),
            };
            response.body(Empty::<Bytes>::new()).unwrap()
        });
        assert_eq!(client.send(get(path)), closing(FAILED), "{path}");
        assert_eq!(client.metrics().mistakes, 1, "{path}");
    }
}

/// Counts its drops.
struct Guard(Arc<Mutex<u32>>);

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn a_connection_that_ends_drops_its_futures() {
    let dropped = Arc::new(Mutex::new(0));
    let of_service = Arc::clone(&dropped);
    let mut client = client(async move |_| {
        let _guard = Guard(Arc::clone(&of_service));
        pending::<Response<Empty<Bytes>>>().await
    });
    client.send(get("/a") + &get("/b"));
    assert_eq!(*dropped.lock().unwrap(), 0);
    client.close();
    client.socket.run();
    assert_eq!(*dropped.lock().unwrap(), 2);
}

#[test]
fn a_body_that_is_cut_off_is_an_error() {
    let seen = Arc::new(Mutex::new(None));
    let of_service = Arc::clone(&seen);
    let mut client = client(async move |request: Request<Body>| {
        let failed = request.into_body().collect().await.err();
        *of_service.lock().unwrap() = failed;
        text("")
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let sent = client.pass(Duration::from_secs(40));
    assert_eq!(sent, closing("408 Request Timeout"));
    assert!(matches!(*seen.lock().unwrap(), Some(BodyError::Refused(_))));
}

#[test]
fn futures_need_not_be_send() {
    let mut client = client(async |_| {
        let local = Rc::new(Cell::new(1));
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            local.set(polls);
            match polls {
                3 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        text(local.get().to_string())
    });
    assert_eq!(client.send(get("/")), ok("3"));
}

#[test]
fn a_size_hint_that_is_exact_becomes_the_length() {
    struct Twice(u8);
    impl HttpBody for Twice {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            self.0 += 1;
            let frame = (self.0 <= 2).then(|| Ok(Frame::data(Bytes::from("ab"))));
            Poll::Ready(frame)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(u64::from(2 - self.0.min(2)) * 2)
        }
    }
    let mut client = client(async |_| Response::new(Twice(0)));
    assert_eq!(client.send(get("/")), ok("abab"));
}
