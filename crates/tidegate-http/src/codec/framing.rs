//! Where a body ends: the table of RFC 9112, section 6.3, without its lenient rows.
//!
//! | message | Transfer-Encoding | Content-Length | body |
//! |---|---|---|---|
//! | any | present | present | refused |
//! | HTTP/1.0 | present | | refused |
//! | any | exactly `chunked` | | [`Chunked`](BodyFraming::Chunked) |
//! | any | `x, chunked` | | refused, 501 |
//! | any | anything else | | refused |
//! | any | | one plain number | [`Length`](BodyFraming::Length) |
//! | any | | anything else | refused |
//! | request | | | [`Empty`](BodyFraming::Empty) |
//! | response | | | [`UntilClose`](BodyFraming::UntilClose) |
//! | response to HEAD; 1xx, 204, 304 | | | [`Empty`](BodyFraming::Empty), whatever is declared |
//! | 101; 2xx to CONNECT | | | [`Tunnel`](BodyFraming::Tunnel), whatever is declared |
//!
//! A `CONNECT` request that declares a body is refused, and so are a coding or a length above zero
//! in a response of the status 1xx or 204.

use super::chars;
use super::method::Method;
use super::refusal::RefusalReason;
use super::version::Version;

/// Where the body of a message ends.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyFraming, Method};
///
/// let declared = BodyFraming::Length(120);
/// // The response to a HEAD request declares the length of a body that it does not have.
/// assert_eq!(BodyFraming::of_response(200, Method::Head, declared), BodyFraming::Empty);
/// assert_eq!(BodyFraming::of_response(200, Method::Get, declared), declared);
/// assert!(BodyFraming::Length(0).is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// The message has no body.
    Empty,
    /// The body has this many bytes.
    Length(u64),
    /// The body is a sequence of chunks, which may be followed by trailers.
    Chunked,
    /// The body ends when the peer closes the connection. Only in responses.
    UntilClose,
    /// The bytes after the head belong to another protocol. Only in responses.
    Tunnel,
}

impl BodyFraming {
    /// Returns the framing of a response with this status to a request with this method, for which
    /// a body is `declared`.
    #[must_use]
    pub fn of_response(status: u16, to: Method<'_>, declared: Self) -> Self {
        match status {
            101 => Self::Tunnel,
            200..300 if to == Method::Connect => Self::Tunnel,
            100..200 | 204 | 304 => Self::Empty,
            _ if to == Method::Head => Self::Empty,
            _ => declared,
        }
    }

    /// Returns the framing that the head of a response with this status declares, for a body that a
    /// service describes as `self`: none in 1xx and 204, and a length of zero in 205, which has no
    /// content. A length in 304 is that of the response with status 200, so that zero means that it
    /// is not known.
    #[must_use]
    pub(crate) const fn declared_with(self, status: u16) -> Self {
        match (status, self) {
            (100..200 | 204, _) | (304, Self::Length(0) | Self::Chunked | Self::UntilClose) => {
                Self::Empty
            }
            (205, _) => Self::Length(0),
            (_, declared) => declared,
        }
    }

    /// Returns `true` if no byte of a body follows the head.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::Empty | Self::Length(0))
    }

    /// Returns the number of bytes of the body, if it is known in advance.
    #[must_use]
    pub const fn length(self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Length(length) => Some(length),
            Self::Chunked | Self::UntilClose | Self::Tunnel => None,
        }
    }
}

/// Returns the framing of a request with these two fields.
#[inline]
pub(super) fn of_request(
    version: Version,
    method: Method<'_>,
    length: Option<&[u8]>,
    coding: Option<&[u8]>,
) -> Result<BodyFraming, RefusalReason> {
    if length.is_none() && coding.is_none() {
        return Ok(BodyFraming::Empty);
    }
    let framing = declared(version, length, coding)?;
    if method == Method::Connect && !framing.is_empty() {
        return Err(RefusalReason::ConnectWithBody);
    }
    Ok(framing)
}

/// Returns the framing that a response with these two fields declares.
pub(super) fn declared_by_response(
    version: Version,
    status: u16,
    length: Option<&[u8]>,
    coding: Option<&[u8]>,
) -> Result<BodyFraming, RefusalReason> {
    if length.is_none() && coding.is_none() {
        return Ok(BodyFraming::UntilClose);
    }
    let framing = declared(version, length, coding)?;
    if matches!(status, 100..200 | 204) {
        match framing {
            BodyFraming::Chunked => return Err(RefusalReason::TransferEncodingInvalid),
            BodyFraming::Length(1..) => return Err(RefusalReason::ContentLengthInvalid),
            _ => {}
        }
    }
    Ok(framing)
}

/// Returns the framing that at least one of the two fields declares.
fn declared(
    version: Version,
    length: Option<&[u8]>,
    coding: Option<&[u8]>,
) -> Result<BodyFraming, RefusalReason> {
    match (length, coding) {
        (Some(_), Some(_)) => Err(RefusalReason::LengthWithCoding),
        (_, Some(_)) if version == Version::Http10 => Err(RefusalReason::CodingInHttp10),
        (_, Some(coding)) => check_coding(coding).map(|()| BodyFraming::Chunked),
        (Some(length), None) => content_length(length).map(BodyFraming::Length),
        (None, None) => Ok(BodyFraming::Empty),
    }
}

/// Returns the value of a `Content-Length`.
fn content_length(value: &[u8]) -> Result<u64, RefusalReason> {
    let invalid = RefusalReason::ContentLengthInvalid;
    // 19 digits fit in a u64. A leading zero could be read as an octal number.
    if value.is_empty() || value.len() > 19 || (value[0] == b'0' && value.len() > 1) {
        return Err(invalid);
    }
    let mut number = 0_u64;
    for byte in value {
        if !byte.is_ascii_digit() {
            return Err(invalid);
        }
        number = number * 10 + u64::from(byte - b'0');
    }
    match i64::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(invalid),
    }
}

/// Accepts a `Transfer-Encoding` that is `chunked` and nothing else.
fn check_coding(value: &[u8]) -> Result<(), RefusalReason> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if !chars::list(value).all(chars::is_token) {
        return Err(RefusalReason::TransferEncodingInvalid);
    }
    let chunked = chars::list(value)
        .filter(|coding| is_chunked(coding))
        .count();
    let last_is_chunked = chars::list(value).last().is_some_and(is_chunked);
    Err(match (last_is_chunked, chunked) {
        (false, _) => RefusalReason::NotChunked,
        (true, 1) => RefusalReason::UnknownCoding,
        // `chunked` twice: the first one is not the outermost coding.
        (true, _) => RefusalReason::TransferEncodingInvalid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_one_plain_number_below_two_to_the_63() {
        let refused: [&[u8]; 14] = [
            b"",
            b"+1",
            b"-1",
            b"0x10",
            b"010",
            b"00",
            b"1,1",
            b"1, 1",
            b"1 1",
            b"1a",
            b"1_000",
            b"9223372036854775808",
            b"18446744073709551617",
            b"10000000000000000000",
        ];
        for value in refused {
            let text = value.escape_ascii();
            assert_eq!(
                content_length(value),
                Err(RefusalReason::ContentLengthInvalid),
                "{text}"
            );
        }
        assert_eq!(content_length(b"0"), Ok(0));
        assert_eq!(content_length(b"9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn a_coding_is_chunked_and_nothing_else() {
        use RefusalReason::{NotChunked, TransferEncodingInvalid, UnknownCoding};
        assert_eq!(check_coding(b"ChunKed"), Ok(()));
        let refused: [(&[u8], _); 13] = [
            (b"", TransferEncodingInvalid),
            (b",chunked", TransferEncodingInvalid),
            (b"chunked,", TransferEncodingInvalid),
            (b"\x80chunked", TransferEncodingInvalid),
            (b"chunked\xa0", TransferEncodingInvalid),
            (b"chunked;q=1", TransferEncodingInvalid),
            (b"\"chunked\"", TransferEncodingInvalid),
            (b"chunked, chunked", TransferEncodingInvalid),
            (b"x chunked", TransferEncodingInvalid),
            (b"gzip", NotChunked),
            (b"chunked, gzip", NotChunked),
            (b"xchunked", NotChunked),
            (b"gzip, chunked", UnknownCoding),
        ];
        for (value, reason) in refused {
            assert_eq!(check_coding(value), Err(reason), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn a_response_to_head_and_some_statuses_have_no_body() {
        let length = BodyFraming::Length(5);
        let rows = [
            (200, Method::Get, length),
            (200, Method::Head, BodyFraming::Empty),
            (404, Method::Head, BodyFraming::Empty),
            (100, Method::Post, BodyFraming::Empty),
            (103, Method::Post, BodyFraming::Empty),
            (204, Method::Get, BodyFraming::Empty),
            (304, Method::Get, BodyFraming::Empty),
            (101, Method::Get, BodyFraming::Tunnel),
            (200, Method::Connect, BodyFraming::Tunnel),
            (407, Method::Connect, length),
        ];
        for (status, to, framing) in rows {
            assert_eq!(
                BodyFraming::of_response(status, to, length),
                framing,
                "{status} {to}"
            );
        }
    }

    #[test]
    fn some_statuses_declare_no_length_or_another_one() {
        use BodyFraming::{Chunked, Empty, Length, UntilClose};
        let rows = [
            (103, Length(5), Empty),
            (200, Length(0), Length(0)),
            (200, Chunked, Chunked),
            (204, Length(0), Empty),
            (204, Chunked, Empty),
            (205, Length(5), Length(0)),
            (205, Chunked, Length(0)),
            (304, Length(0), Empty),
            (304, Length(5), Length(5)),
            (304, Chunked, Empty),
            (304, UntilClose, Empty),
            (404, UntilClose, UntilClose),
        ];
        for (status, body, declared) in rows {
            assert_eq!(body.declared_with(status), declared, "{status} {body:?}");
        }
    }
}
