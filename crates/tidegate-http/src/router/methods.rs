//! The handlers of one path, by method.

use std::fmt;
use std::sync::Arc;

use crate::codec::Method;
use crate::server::{Request, Response};

/// The code of a route. All connections share it.
pub(super) type Handler = Arc<dyn Fn(Request<'_>, Response<'_>) + Send + Sync>;

/// The handlers of one path.
#[derive(Default)]
pub(super) struct MethodTable {
    own: Vec<(String, Handler)>,
    /// The handler of all methods that have none.
    any: Option<Handler>,
    /// The value of the field `Allow`.
    allow: String,
}

impl MethodTable {
    /// Adds the handler of a method. Returns `false` if the method has one.
    pub(super) fn insert(&mut self, method: Method<'_>, handler: Handler) -> bool {
        let is_new = self.own(method).is_none();
        if is_new {
            self.own.push((method.as_str().to_owned(), handler));
            self.allow = self.list();
        }
        is_new
    }

    /// Adds the handler of all methods that have none. Returns `false` if there is one.
    pub(super) fn insert_any(&mut self, handler: Handler) -> bool {
        let is_new = self.any.is_none();
        if is_new {
            self.any = Some(handler);
        }
        is_new
    }

    /// Returns the handler of a method. `HEAD` falls back to the handler of `GET`.
    pub(super) fn get(&self, method: Method<'_>) -> Option<&Handler> {
        let get = || match method {
            Method::Head => self.own(Method::Get),
            _ => None,
        };
        self.own(method).or_else(get).or(self.any.as_ref())
    }

    fn own(&self, method: Method<'_>) -> Option<&Handler> {
        let found = self.own.iter().find(|(own, _)| own == method.as_str());
        found.map(|(_, handler)| handler)
    }

    /// Returns the methods that the path has, for the field `Allow`.
    pub(super) fn allow(&self) -> &str {
        &self.allow
    }

    fn list(&self) -> String {
        let mut names: Vec<_> = self.own.iter().map(|(name, _)| name.as_str()).collect();
        names.push("OPTIONS");
        if self.own(Method::Get).is_some() {
            names.push("HEAD");
        }
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

impl fmt::Debug for MethodTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodTable").field(&self.allow).finish()
    }
}
