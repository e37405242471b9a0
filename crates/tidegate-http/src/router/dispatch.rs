//! Finds the route of a request.

use std::sync::Arc;

use super::builder::RouterBuilder;
use super::methods::{Handler, MethodTable};
use crate::codec::{Method, TargetForm};
use crate::percent;
use crate::server::{Request, Response, Service};

/// Calls the handler of the route that matches the method and the path of a request. Clones share
/// the routes.
///
/// A router is a [`Service`]: give it to
/// [`serve_with`](crate::HttpServerBuilder::serve_with), or call [`Router::respond`].
///
/// # Paths
///
/// A path begins with a slash. `{name}` stands for one segment that is not empty, `{*name}` at the
/// end for the rest of the path, which is not empty either. A fixed segment is preferred to
/// `{name}`, and that to `{*name}`.
///
/// A route is compared with the path as it was sent, without the query. Nothing is decoded or
/// normalised before that: `/a`, `/a/`, `//a` and `/%61` are four paths, an encoded slash does not
/// separate segments, and `..` is a segment like any other. [`Request::param`] returns the decoded
/// text of a parameter. If it cannot be decoded to UTF-8, the router responds with status 400.
///
/// # Methods
///
/// `HEAD` falls back to the handler of `GET`. A request whose path has routes, but none of its
/// method, gets status 405 with a field `Allow`; `OPTIONS` gets that field with status 204. A
/// request without a route gets status 404, unless there is a
/// [fallback](RouterBuilder::fallback).
///
/// A request is matched without an allocation if its route has at most three parameters. The largest
/// body that a route accepts is the argument of [`Request::collect`].
///
/// ```
/// use tidegate_http::{HttpServer, Router};
///
/// let router = Router::builder()
///     .get("/", |_, response| response.body("home\n"))
///     .get("/users/{id}", |request, response| {
///         let id = request.param("id").unwrap_or_default();
///         response.body(format!("user {id}\n"));
///     })
///     .put("/users/{id}", |_, response| response.status(204).body(""))
///     .build()?;
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = HttpServer::builder(&group)
///     .serve_with("127.0.0.1:0", move || router.clone())
///     .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Router {
    routes: Arc<Routes>,
}

pub(super) struct Routes {
    pub(super) paths: matchit::Router<MethodTable>,
    pub(super) fallback: Option<Handler>,
}

impl Router {
    /// Begins the description of a router.
    pub fn builder() -> RouterBuilder {
        RouterBuilder::default()
    }

    pub(super) fn new(routes: Routes) -> Self {
        Self {
            routes: Arc::new(routes),
        }
    }

    /// Calls the handler of the route that matches, on this thread.
    pub fn respond(&self, request: Request<'_>, response: Response<'_>) {
        let method = request.method();
        let has_path = matches!(
            request.head().form(),
            TargetForm::Origin | TargetForm::Absolute
        );
        let found = match has_path {
            true => self.routes.paths.at(request.path()).ok(),
            false => None,
        };
        let Some(found) = found else {
            return self.respond_without_route(request, response);
        };
        if !found.params.iter().all(|(_, value)| is_text(value)) {
            return refuse(response, 400, "the path cannot be decoded\n");
        }
        match found.value.get(method) {
            Some(handler) => handler(request.with_params(&found.params), response),
            None if method == Method::Options => {
                let response = response.status(204).field("Allow", found.value.allow());
                response.body("");
            }
            None => {
                let response = response.field("Allow", found.value.allow());
                refuse(response, 405, "the path does not have this method\n");
            }
        }
    }

    #[cold]
    fn respond_without_route(&self, request: Request<'_>, response: Response<'_>) {
        match &self.routes.fallback {
            Some(handler) => handler(request, response),
            // `OPTIONS *` asks whether the server is there.
            None if request.head().form() == TargetForm::Asterisk => {
                response.status(204).body("");
            }
            None => refuse(response, 404, "not found\n"),
        }
    }
}

impl Service for Router {
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        self.respond(request, response);
    }
}

tidegate_core::debug_fields!(Router);

/// Returns `true` if percent-encoded text can be decoded.
fn is_text(value: &str) -> bool {
    !value.contains('%') || percent::decode(value).is_some()
}

fn refuse(response: Response<'_>, status: u16, text: &'static str) {
    response
        .status(status)
        .field("Content-Type", "text/plain; charset=utf-8")
        .body(text);
}
