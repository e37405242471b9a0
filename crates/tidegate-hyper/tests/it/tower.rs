//! Services of tower.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tower::Service;

use crate::{ask, dial, get, group};

/// Is ready at the second time, and counts the clones that were called.
#[derive(Clone, Default)]
struct Hesitates {
    asked: bool,
    calls: Arc<AtomicUsize>,
}

impl Service<Request<Incoming>> for Hesitates {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if std::mem::replace(&mut self.asked, true) {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<Incoming>) -> Self::Future {
        assert!(self.asked, "called before it was ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(Full::from("ready"))))
    }
}

#[test]
fn each_request_gets_a_clone_that_is_ready() {
    let (service, group) = (Hesitates::default(), group());
    let calls = Arc::clone(&service.calls);
    let server = tidegate_hyper::serve(&group, "127.0.0.1:0", service);
    let server = server.wait().unwrap();
    let mut client = dial(&server);
    for _ in 0..3 {
        ask(&mut client, "/", "ready");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn a_service_that_is_never_ready_ends_with_its_client() {
    #[derive(Clone)]
    struct Never {
        _alive: Arc<()>,
    }
    impl Service<Request<Incoming>> for Never {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Pending<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<Incoming>) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let (alive, group) = (Arc::new(()), group());
    let never = Never {
        _alive: Arc::clone(&alive),
    };
    let server = tidegate_hyper::serve(&group, "127.0.0.1:0", never);
    let server = server.wait().unwrap();
    let before = Arc::strong_count(&alive);
    let mut client = dial(&server);
    std::io::Write::write_all(&mut client, get("/").as_bytes()).unwrap();
    tidegate_testkit::until("the request has arrived", || {
        Arc::strong_count(&alive) == before + 2
    });
    drop(client);
    tidegate_testkit::until("its service is dropped", || {
        Arc::strong_count(&alive) == before
    });
}
