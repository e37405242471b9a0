//! Heads of this crate as those of the crate `http`, and back.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Uri, Version};

use crate::codec::{self, Field, RequestHead, Trailers};
use crate::server::{DeferredResponse, Request};

/// Copies the head of a request. Returns `None` if the crate `http` has no value for it.
pub(super) fn head(request: &Request<'_>) -> Option<http::request::Parts> {
    let head = request.head();
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = Method::from_bytes(head.method().as_str().as_bytes()).ok()?;
    parts.uri = Uri::try_from(head.target()).ok()?;
    parts.version = match head.version() {
        codec::Version::Http10 => Version::HTTP_10,
        codec::Version::Http11 => Version::HTTP_11,
    };
    parts.headers = fields(&head)?;
    parts.extensions.insert(request.channel().clone());
    Some(parts)
}

/// Copies the fields: one copy of the whole head, of which the values are parts.
fn fields(head: &RequestHead<'_>) -> Option<HeaderMap> {
    let bytes = head.as_bytes();
    let start = bytes.as_ptr().addr();
    let whole = Bytes::copy_from_slice(bytes);
    let mut map = HeaderMap::with_capacity(head.fields().len());
    for Field { name, value } in head.fields().iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let at = value.as_ptr().addr().checked_sub(start)?;
        let value = match at + value.len() <= whole.len() {
            true => HeaderValue::from_maybe_shared(whole.slice(at..at + value.len())),
            false => HeaderValue::from_bytes(value),
        };
        map.append(name, value.ok()?);
    }
    Some(map)
}

/// Reads trailers as they were received.
pub(super) fn trailers(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for Field { name, value } in Trailers::new(lines) {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

/// What the fields of a response say about the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Nothing,
    Length(u64),
    /// Two lengths, or one that is no number.
    Invalid,
}

/// Returns the length that the fields declare.
pub(super) fn declared(headers: &HeaderMap) -> Declared {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else {
        return Declared::Nothing;
    };
    let digits = first.to_str().ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(length) if lengths.all(|other| other == first) => Declared::Length(length),
        _ => Declared::Invalid,
    }
}

/// Writes status and fields. The framing is the server's decision.
pub(super) fn write_head(
    parts: &http::response::Parts,
    response: DeferredResponse,
) -> DeferredResponse {
    let mut response = response.status(parts.status.as_u16());
    for (name, value) in &parts.headers {
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            response = response.field(name.as_str(), value);
        }
    }
    response
}
