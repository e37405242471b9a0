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

impl Method<'static> {
    /// Returns the method with this name, and `Other` without a name for one that is not known: so a
    /// table of offsets stores it.
    pub(super) fn without_name(name: &[u8]) -> Self {
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
            _ => Self::Other(""),
        }
    }
}

impl<'a> From<&'a str> for Method<'a> {
    fn from(name: &'a str) -> Self {
        match Method::without_name(name.as_bytes()) {
            Method::Other(_) => Self::Other(name),
            known => known,
        }
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
