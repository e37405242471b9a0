//! What a route looks at in a request.

/// The parts of a request that decide its route.
#[derive(Clone, Copy)]
pub struct RouteRequest<'a> {
    /// The host in lower case, without a port. Empty if the request has none.
    pub host: &'a str,
    /// The path in normal form, without the query. `/` for `CONNECT` and for `OPTIONS *`, which
    /// have none. As bytes, which cost less to get and to compare.
    pub path: &'a [u8],
    /// The method.
    pub method: &'a str,
    /// Returns `true` if the request has a field with this name (in lower case) and value. An
    /// empty value stands for any value.
    pub has_header: &'a dyn Fn(&str, &str) -> bool,
}

// Prints no fields: they may contain secrets.
tidegate_core::debug_fields!(RouteRequest<'_>, this =>
    host: this.host, path: String::from_utf8_lossy(this.path), method: this.method);
