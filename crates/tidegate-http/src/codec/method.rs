//! The method of a request.

use std::fmt;

/// The method of a request.
///
/// Methods are case-sensitive: `get` is [`Method::Other`].
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::Method;
///
/// assert_eq!(Method::from("DELETE"), Method::Delete);
/// assert_eq!(Method::from("PURGE").as_str(), "PURGE");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// `GET`.
    Get,
    /// `HEAD`: the response has no body.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `CONNECT`: after a successful response, the connection is a tunnel.
    Connect,
    /// `OPTIONS`.
    Options,
    /// `TRACE`.
    Trace,
    /// `PATCH`.
    Patch,
    /// Any other method.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// Returns the method as it is written in a request.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(name) => name,
        }
    }

    /// Returns `true` if a request of this method only asks for something (RFC 9110, 9.2.1). No unknown
    /// method is safe.
    #[inline]
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}

impl<'a> From<&'a str> for Method<'a> {
    fn from(name: &'a str) -> Self {
        MethodCode::of(name.as_bytes()).method(name)
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A method without its name, as a table of offsets stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodCode {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Other,
}

impl MethodCode {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Returns the method; `name` is used if the method is not one of the known ones.
    pub(super) fn method(self, name: &str) -> Method<'_> {
        match self {
            Self::Get => Method::Get,
            Self::Head => Method::Head,
            Self::Post => Method::Post,
            Self::Put => Method::Put,
            Self::Delete => Method::Delete,
            Self::Connect => Method::Connect,
            Self::Options => Method::Options,
            Self::Trace => Method::Trace,
            Self::Patch => Method::Patch,
            Self::Other => Method::Other(name),
        }
    }
}
