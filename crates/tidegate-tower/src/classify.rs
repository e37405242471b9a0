//! Judges the result of a call: does it show that the dependency works?

use http::{HeaderMap, Response};
use tidegate_isolate::Verdict;

use crate::grpc;

/// Decides whether the result of a call counts as a success or as a failure of the dependency.
///
/// Closures implement it. They return a [`Verdict`], or `true` for a success and `false` for a
/// failure:
///
/// ```
/// use http::Response;
/// use tidegate_isolate::Verdict;
/// use tidegate_tower::Classify;
///
/// let teapots_are_fine = |outcome: Result<&Response<()>, &std::io::Error>| {
///     outcome.is_ok_and(|response| response.status() != 500)
/// };
/// assert_eq!(teapots_are_fine.classify(Ok(&Response::new(()))), Verdict::Success);
/// ```
///
/// A closure sees the head of a response. [`ByStatus`] also reads the trailers.
pub trait Classify<R, E> {
    /// Returns the verdict on a response, or on the error of the service.
    fn classify(&self, outcome: Result<&R, &E>) -> Verdict;

    /// Returns `true` if only the trailers of this response say whether it is a success. The call is
    /// then judged at the end of the body, and its timeout applies until then.
    fn awaits_trailers(_response: &R) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Returns the verdict that the trailers of a response contain, in place of the verdict on its
    /// head. It counts if the call is judged at the end of the body: see
    /// [`awaits_trailers`](Classify::awaits_trailers) and
    /// [`CommandLayer::until_end`](crate::CommandLayer::until_end).
    fn classify_trailers(_trailers: &HeaderMap) -> Option<Verdict>
    where
        Self: Sized,
    {
        None
    }
}

impl<R, E, F, V> Classify<R, E> for F
where
    F: Fn(Result<&R, &E>) -> V,
    V: Into<Verdict>,
{
    fn classify(&self, outcome: Result<&R, &E>) -> Verdict {
        self(outcome).into()
    }
}

/// The default for HTTP: an error is a failure, and so is a response with a status of 500 or above.
/// A gRPC response is judged by its `grpc-status`, in its head or in its trailers: a status that
/// corresponds to an HTTP status of 500 or above is a failure.
///
/// ```
/// use http::Response;
/// use tidegate_isolate::Verdict;
/// use tidegate_tower::{ByStatus, Classify};
///
/// let response = Response::builder().status(503).body(()).unwrap();
/// let verdict = ByStatus.classify(Ok::<_, &std::io::Error>(&response));
/// assert_eq!(verdict, Verdict::Failure);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ByStatus;

impl<B, E> Classify<Response<B>, E> for ByStatus {
    fn classify(&self, outcome: Result<&Response<B>, &E>) -> Verdict {
        let Ok(response) = outcome else {
            return Verdict::Failure;
        };
        if response.status().is_server_error() {
            return Verdict::Failure;
        }
        grpc::verdict(response.headers()).unwrap_or(Verdict::Success)
    }

    fn awaits_trailers(response: &Response<B>) -> bool {
        let headers = response.headers();
        let is_failure = response.status().is_server_error();
        !is_failure && grpc::is_grpc(headers) && grpc::verdict(headers).is_none()
    }

    fn classify_trailers(trailers: &HeaderMap) -> Option<Verdict> {
        grpc::verdict(trailers)
    }
}

/// The default for services that do not speak HTTP: a response is a success, an error is a failure.
///
/// ```
/// use tidegate_isolate::Verdict;
/// use tidegate_tower::{ByResult, Classify};
///
/// assert_eq!(ByResult.classify(Ok::<_, &&str>(&7)), Verdict::Success);
/// assert_eq!(ByResult.classify(Err::<&u32, _>(&"down")), Verdict::Failure);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ByResult;

impl<R, E> Classify<R, E> for ByResult {
    fn classify(&self, outcome: Result<&R, &E>) -> Verdict {
        outcome.is_ok().into()
    }
}
