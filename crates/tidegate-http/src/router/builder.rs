//! The description of a router.

use std::fmt;
use std::sync::Arc;

use super::dispatch::{Router, Routes};
use super::methods::{Handler, MethodTable};
use crate::codec::Method;
use crate::codec::chars::is_token;
use crate::server::{Request, Response};

/// Collects the routes of a [`Router`]. The first mistake is returned by
/// [`build`](RouterBuilder::build).
///
/// Handlers are shared by all connections. They run on the thread of the connection: on a pinned
/// group they must not block.
#[must_use = "a router exists when its builder builds it"]
#[derive(Default)]
pub struct RouterBuilder {
    /// The paths in the order of their first routes.
    paths: Vec<(String, MethodTable)>,
    fallback: Option<Handler>,
    mistake: Option<RouterError>,
}

/// The error for a route that a [`Router`] cannot have.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// Two handlers have the same method and path.
    #[error("the route `{method} {path}` has two handlers; remove one")]
    Duplicate {
        /// The method; `*` for all of them.
        method: String,
        /// The path.
        path: String,
    },
    /// Two paths match the same requests, and neither is preferred.
    #[error("the path `{path}` conflicts with `{with}`; use the same names, or another path")]
    Conflict {
        /// The path that was added later.
        path: String,
        /// The path with which it conflicts.
        with: String,
    },
    /// A path is not a path of routes.
    #[error("the path `{path}` is not valid: {why}")]
    InvalidPath {
        /// The path.
        path: String,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// A method is not a method of HTTP.
    #[error("the method `{0}` is not valid; use letters such as `PURGE`")]
    InvalidMethod(String),
}

tidegate_core::debug_as_display!(RouterError);

/// Defines a method that adds a route.
macro_rules! method {
    ($name:ident, $method:ident, $doc:literal) => {
        #[doc = $doc]
        pub fn $name<F>(self, path: &str, handler: F) -> Self
        where
            F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
        {
            self.add(Method::$method, path, Arc::new(handler))
        }
    };
}

impl RouterBuilder {
    method!(
        get,
        Get,
        "Adds a route for `GET`, and for `HEAD` unless it has one."
    );
    method!(post, Post, "Adds a route for `POST`.");
    method!(put, Put, "Adds a route for `PUT`.");
    method!(patch, Patch, "Adds a route for `PATCH`.");
    method!(delete, Delete, "Adds a route for `DELETE`.");

    /// Adds a route for any one method, such as `HEAD`, `OPTIONS` or `PURGE`.
    pub fn route<F>(mut self, method: &str, path: &str, handler: F) -> Self
    where
        F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    {
        match is_token(method.as_bytes()) {
            true => self.add(Method::from(method), path, Arc::new(handler)),
            false => {
                let mistake = RouterError::InvalidMethod(method.to_owned());
                self.mistake.get_or_insert(mistake);
                self
            }
        }
    }

    /// Adds a route for all methods that have no route of their own for this path.
    pub fn any<F>(self, path: &str, handler: F) -> Self
    where
        F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    {
        self.add_any(path, Arc::new(handler))
    }

    /// Adds routes for all methods and for all paths that begin with `prefix`, such as `/static`:
    /// for the prefix itself, with a slash, and with a path behind it. The handler looks at the
    /// method and the whole path.
    pub fn mount<F>(self, prefix: &str, handler: F) -> Self
    where
        F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    {
        let handler: Handler = Arc::new(handler);
        let prefix = prefix.trim_end_matches('/');
        let mut router = self;
        if !prefix.is_empty() {
            router = router.add_any(prefix, Arc::clone(&handler));
        }
        router
            .add_any(&format!("{prefix}/"), Arc::clone(&handler))
            .add_any(&format!("{prefix}/{{*rest}}"), handler)
    }

    /// Sets the handler of requests without a route. Without it they get status 404.
    pub fn fallback<F>(mut self, handler: F) -> Self
    where
        F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    {
        self.fallback = Some(Arc::new(handler));
        self
    }

    /// Builds the router.
    ///
    /// # Errors
    ///
    /// The first mistake in the routes: see [`RouterError`].
    pub fn build(self) -> Result<Router, RouterError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let mut paths = matchit::Router::new();
        for (path, methods) in self.paths {
            let added = paths.insert(path.clone(), methods);
            added.map_err(|why| path_mistake(path, why))?;
        }
        Ok(Router::new(Routes {
            paths,
            fallback: self.fallback,
        }))
    }

    fn add(mut self, method: Method<'_>, path: &str, handler: Handler) -> Self {
        if !self.table(path).insert(method, handler) {
            self.duplicate(method.as_str(), path);
        }
        self
    }

    fn add_any(mut self, path: &str, handler: Handler) -> Self {
        if !self.table(path).insert_any(handler) {
            self.duplicate("*", path);
        }
        self
    }

    fn table(&mut self, path: &str) -> &mut MethodTable {
        if !path.starts_with('/') {
            let why = "it does not begin with a slash; add one";
            let path = path.to_owned();
            let mistake = RouterError::InvalidPath { path, why };
            self.mistake.get_or_insert(mistake);
        }
        let known = self.paths.iter().position(|(known, _)| known == path);
        let at = known.unwrap_or_else(|| {
            self.paths.push((path.to_owned(), MethodTable::default()));
            self.paths.len() - 1
        });
        &mut self.paths[at].1
    }

    fn duplicate(&mut self, method: &str, path: &str) {
        let (method, path) = (method.to_owned(), path.to_owned());
        let mistake = RouterError::Duplicate { method, path };
        self.mistake.get_or_insert(mistake);
    }
}

impl fmt::Debug for RouterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.paths.iter().map(|(path, methods)| (path, methods));
        f.debug_map().entries(paths).finish()
    }
}

fn path_mistake(path: String, why: matchit::InsertError) -> RouterError {
    let why = match why {
        matchit::InsertError::Conflict { with } => {
            return RouterError::Conflict { path, with };
        }
        matchit::InsertError::InvalidParamSegment => {
            "a segment has more than one parameter, or text after it; split it"
        }
        matchit::InsertError::InvalidCatchAll => {
            "`{*name}` is not at its end; move it there, or use `{name}`"
        }
        _ => {
            "a parameter has no name, or a brace has no partner; write `{name}`, or `{{` for a brace"
        }
    };
    RouterError::InvalidPath { path, why }
}
