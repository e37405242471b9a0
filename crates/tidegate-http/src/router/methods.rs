//! The handlers of one path, by method.

use std::fmt;
use std::sync::Arc;

use crate::codec::Method;
use crate::server::{Request, Response};

/// The code of a route. All connections share it.
pub(super) type Handler = Arc<dyn Fn(Request<'_>, Response<'_>) + Send + Sync>;

/// The methods that have a slot of their own.
const NAMED: [Method<'static>; 9] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Connect,
    Method::Options,
    Method::Trace,
    Method::Patch,
];

/// The handlers of one path.
#[derive(Default)]
pub(super) struct MethodTable {
    named: [Option<Handler>; NAMED.len()],
    /// Handlers of other methods.
    others: Vec<(String, Handler)>,
    /// The handler of all methods that have none.
    any: Option<Handler>,
    /// The value of the field `Allow`.
    allow: String,
}

impl MethodTable {
    /// Adds the handler of a method. Returns `false` if the method has one.
    pub(super) fn insert(&mut self, method: Method<'_>, handler: Handler) -> bool {
        let name = method.as_str();
        let place = match slot(method) {
            Some(slot) => &mut self.named[slot],
            None if self.others.iter().any(|(other, _)| other == name) => return false,
            None => {
                self.others.push((name.to_owned(), handler));
                self.allow = self.list();
                return true;
            }
        };
        let is_new = place.is_none();
        if is_new {
            *place = Some(handler);
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
        let own = match slot(method) {
            Some(slot) => self.named[slot].as_ref(),
            None => self.other(method.as_str()),
        };
        let get = || match method {
            Method::Head => self.named[0].as_ref(),
            _ => None,
        };
        own.or_else(get).or(self.any.as_ref())
    }

    fn other(&self, name: &str) -> Option<&Handler> {
        let found = self.others.iter().find(|(other, _)| other == name);
        found.map(|(_, handler)| handler)
    }

    /// Returns the methods that the path has, for the field `Allow`.
    pub(super) fn allow(&self) -> &str {
        &self.allow
    }

    fn list(&self) -> String {
        let has = |method| self.get(method).is_some() || method == Method::Options;
        let named = NAMED.into_iter().filter(|method| has(*method));
        let others = self.others.iter().map(|(name, _)| name.as_str());
        let names: Vec<_> = named.map(|method| method.as_str()).chain(others).collect();
        names.join(", ")
    }
}

impl fmt::Debug for MethodTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodTable").field(&self.allow).finish()
    }
}

fn slot(method: Method<'_>) -> Option<usize> {
    NAMED.iter().position(|named| *named == method)
}
