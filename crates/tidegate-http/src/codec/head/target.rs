//! The four forms of a request target (RFC 9112, section 3.2).

use crate::codec::chars;
use crate::codec::method::Method;

use super::authority::Authority;

/// The form of a request target.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder, TargetForm};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"GET http://a.org/x?y HTTP/1.1\r\nHost: a.org\r\n\r\n";
/// let head = decoder.head(received, &mut table)?.expect("the head is complete");
/// assert_eq!(head.form(), TargetForm::Absolute);
/// assert_eq!((head.path(), head.query()), ("/x", Some("y")));
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetForm {
    /// A path and an optional query: `/where?q=now`.
    Origin,
    /// A whole URI, as a proxy gets it: `http://example.org/where?q=now`. The scheme is `http` or
    /// `https`.
    Absolute,
    /// A host and a port, of a `CONNECT` request: `example.org:443`.
    Authority,
    /// The server as a whole, of an `OPTIONS` request: `*`.
    Asterisk,
}

/// Returns the form of a target whose bytes are allowed, or `None` if it has none of the forms that
/// fit the method.
#[inline]
pub(super) fn form(method: Method<'_>, target: &[u8]) -> Option<TargetForm> {
    if target.first() == Some(&b'/') && method != Method::Connect {
        return Some(TargetForm::Origin);
    }
    rare_form(method, target)
}

#[cold]
fn rare_form(method: Method<'_>, target: &[u8]) -> Option<TargetForm> {
    if method == Method::Connect {
        let authority = Authority::parse(target)?;
        return authority.port.map(|_| TargetForm::Authority);
    }
    if target == b"*" {
        return (method == Method::Options).then_some(TargetForm::Asterisk);
    }
    absolute(target).map(|_| TargetForm::Absolute)
}

/// The parts of a target in absolute form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absolute<'a> {
    pub(super) default_port: &'static [u8],
    pub(super) authority: Authority<'a>,
    /// The authority as text.
    pub(super) authority_text: &'a [u8],
    /// The path and the query; may be empty, or start with the query.
    pub(super) rest: &'a [u8],
}

/// Returns the parts of a target in absolute form, or `None` if it does not have this form.
pub(super) fn absolute(target: &[u8]) -> Option<Absolute<'_>> {
    let (scheme, after) = target.split_at(chars::find(target, b':')?);
    let default_port: &[u8] = match scheme {
        _ if scheme.eq_ignore_ascii_case(b"http") => b"80",
        _ if scheme.eq_ignore_ascii_case(b"https") => b"443",
        _ => return None,
    };
    let after = after.strip_prefix(b"://")?;
    let end = after.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority_text, rest) = after.split_at(end.unwrap_or(after.len()));
    Some(Absolute {
        default_port,
        authority: Authority::parse(authority_text)?,
        authority_text,
        rest,
    })
}

/// Returns the part of `text` before its query.
pub(super) fn path(text: &[u8]) -> &[u8] {
    &text[..chars::find(text, b'?').unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_forms() {
        use Method::{Connect, Get, Options};
        let rows = [
            (Get, "/", Some(TargetForm::Origin)),
            (Get, "//a/b", Some(TargetForm::Origin)),
            (Get, "http://a", Some(TargetForm::Absolute)),
            (Get, "HTTPS://a:1/x?y", Some(TargetForm::Absolute)),
            (Get, "http://a?y", Some(TargetForm::Absolute)),
            (Options, "*", Some(TargetForm::Asterisk)),
            (Options, "/", Some(TargetForm::Origin)),
            (Connect, "a:443", Some(TargetForm::Authority)),
            (Connect, "[::1]:443", Some(TargetForm::Authority)),
            (Get, "*", None),
            (Options, "**", None),
            (Get, "a:443", None),
            (Get, "a", None),
            (Get, "?x", None),
            (Get, "http:/a", None),
            (Get, "http://", None),
            (Get, "http:///x", None),
            (Get, "http://u@a/", None),
            (Get, "ftp://a/", None),
            (Get, "://a/", None),
            (Connect, "/", None),
            (Connect, "a", None),
            (Connect, "a:", None),
            (Connect, "u@a:443", None),
            (Connect, "http://a:443", None),
            (Connect, "*", None),
        ];
        for (method, target, expected) in rows {
            assert_eq!(
                form(method, target.as_bytes()),
                expected,
                "{method:?} {target}"
            );
        }
    }
}
