//! A service behind a layer is called and polled in the span of its call.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::Empty;
use tidegate_isolate::{Command, Isolation};
use tidegate_testkit::{Recorder, block_on};
use tidegate_tower::CommandExt;
use tower::{Layer, ServiceExt, service_fn};
use tracing::subscriber::with_default;

#[test]
fn a_service_runs_in_the_span_of_its_call() {
    let isolation = Isolation::builder().build().unwrap();
    let pages: Command = Command::builder("pages")
        .group("site")
        .build(&isolation)
        .unwrap();
    let recorder = Recorder::new();
    let look = recorder.clone();
    let page = service_fn(move |_: Request<()>| {
        assert_eq!(look.current(), ["command"]);
        let look = look.clone();
        async move {
            assert_eq!(look.current(), ["command"]);
            Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new()))
        }
    });
    let service = pages.layer().layer(page);
    with_default(recorder.clone(), || {
        let response = block_on("the page", service.oneshot(Request::new(())));
        assert_eq!(response.unwrap().status(), 200);
    });
    let span = &recorder.spans("command")[0];
    assert_eq!(span.field("command"), Some("pages"));
    assert_eq!(span.field("outcome"), Some("SUCCESS"));
    assert_eq!((span.handles, span.entered), (0, span.left));
}
