//! The version of a message.

use std::fmt;

/// The version of a message. Other versions are refused.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::Version;
///
/// assert_eq!(Version::Http11.to_string(), "HTTP/1.1");
/// assert!(Version::Http10 < Version::Http11);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/1.0`: no chunked bodies; the connection closes unless both sides ask to keep it.
    Http10,
    /// `HTTP/1.1`.
    Http11,
}

impl Version {
    /// Returns the version as it is written in a message.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
