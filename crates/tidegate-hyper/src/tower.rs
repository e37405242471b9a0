//! A tower service as a hyper service.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Request;
use hyper::body::Incoming;
use pin_project_lite::pin_project;

/// A service of tower as a service of hyper: each request gets a clone, which is called when it is
/// ready. [`Http::serve`](crate::Http::serve) wraps its service in this. A program that gives each
/// connection a service of its own does it with [`Http::serve_with`](crate::Http::serve_with).
///
/// ```
/// use std::convert::Infallible;
/// use http_body_util::Full;
/// use hyper::{Request, Response, body::{Bytes, Incoming}};
/// use tidegate_hyper::{Http, TowerService};
/// use tidegate_net::Channel;
/// use tower::service_fn;
///
/// let group = tidegate_net::pinned("http", 1)?;
/// let make = |channel: &Channel| {
///     let peer = channel.peer_addr();
///     TowerService::new(service_fn(move |_: Request<Incoming>| async move {
///         let text = format!("you are {peer:?}");
///         Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
///     }))
/// };
/// let server = Http::new().serve_with(&group, "127.0.0.1:0", make).wait()?;
/// # server.stop_accepting().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TowerService<S> {
    service: S,
}

impl<S> TowerService<S> {
    /// Wraps `service`.
    pub fn new(service: S) -> Self {
        Self { service }
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for TowerService<S>
where
    S: tower_service::Service<Request<Incoming>> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = TowerCall<S>;

    fn call(&self, request: Request<Incoming>) -> TowerCall<S> {
        TowerCall {
            stage: CallStage::Waiting {
                service: self.service.clone(),
                request: Some(request),
            },
        }
    }
}

tidegate_core::debug_fields!([S] TowerService<S>);

pin_project! {
    /// The call of a [`TowerService`].
    pub struct TowerCall<S>
    where
        S: tower_service::Service<Request<Incoming>>,
    {
        #[pin]
        stage: CallStage<S, S::Future>,
    }
}

pin_project! {
    #[project = CallView]
    enum CallStage<S, F> {
        Waiting { service: S, request: Option<Request<Incoming>> },
        Running { #[pin] future: F },
    }
}

impl<S> Future for TowerCall<S>
where
    S: tower_service::Service<Request<Incoming>>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let future = match stage.as_mut().project() {
                CallView::Running { future } => return future.poll(cx),
                CallView::Waiting { service, request } => {
                    ready!(service.poll_ready(cx))?;
                    let Some(request) = request.take() else {
                        return Poll::Pending;
                    };
                    service.call(request)
                }
            };
            stage.set(CallStage::Running { future });
        }
    }
}

tidegate_core::debug_fields!([S: tower_service::Service<Request<Incoming>>] TowerCall<S>);
