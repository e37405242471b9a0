//! The conditions of one route, and which of two routes is more specific.

use std::collections::BTreeMap;

use super::host::HostPattern;
use super::path::PathPattern;
use super::request::RouteRequest;

/// The conditions of a route. Empty lists are no condition, except that `CONNECT` is only taken by
/// a route that names it.
#[derive(Clone, PartialEq, Eq)]
pub struct Rule {
    /// One of these hosts.
    pub hosts: Vec<HostPattern>,
    /// This path.
    pub path: PathPattern,
    /// One of these methods.
    pub methods: Vec<String>,
    /// All of these fields. An empty value stands for any value. Names are in lower case.
    pub headers: BTreeMap<String, String>,
}

impl Rule {
    /// Returns `true` if the method and the fields of a request fit. Its host and path are found
    /// through the table.
    pub(super) fn fits(&self, request: &RouteRequest<'_>) -> bool {
        let method = match self.methods.as_slice() {
            [] => request.method != "CONNECT",
            methods => methods.iter().any(|method| method == request.method),
        };
        let has_all = || {
            let mut headers = self.headers.iter();
            headers.all(|(name, value)| (request.has_header)(name, value))
        };
        method && (self.headers.is_empty() || has_all())
    }

    /// Returns how specific the conditions besides host and path are. The larger one wins: a route
    /// with a method before one without, then the route with more fields, then the route with more
    /// values of fields.
    pub(super) fn rank(&self) -> (bool, usize, usize) {
        let values = self.headers.values().filter(|value| !value.is_empty());
        (!self.methods.is_empty(), self.headers.len(), values.count())
    }

    /// Returns `true` if a request can fit both rules, of the same host and path, and neither is
    /// more specific.
    pub(super) fn ties_with(&self, other: &Self) -> bool {
        let mut shared = self.methods.iter();
        let same_method = self.methods.is_empty() || shared.any(|m| other.methods.contains(m));
        let differs = |(name, value): (&String, &String)| {
            let other = other.headers.get(name);
            other.is_some_and(|o| !o.is_empty() && !value.is_empty() && o != value)
        };
        self.rank() == other.rank() && same_method && !self.headers.iter().any(differs)
    }
}

// Prints no texts: they may be the values of variables.
tidegate_core::debug_fields!(Rule);
