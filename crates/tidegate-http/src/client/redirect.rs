//! Redirects: the next request after a response of the status 301, 302, 303, 307 or 308.

use bytes::BytesMut;

use super::call::{Follow, Next};
use super::request::RequestBuilder;
use super::url::Url;
use crate::codec::Method;

/// The most redirects that one call follows.
pub(super) const MOST_REDIRECTS: u8 = 10;

/// Fields that only the origin of the first request may see.
const PRIVATE: [&str; 4] = ["authorization", "cookie", "host", "proxy-authorization"];
/// Fields that describe a body.
const OF_BODY: [&str; 4] = [
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
];

/// Returns what follows the redirects of a request, for its call.
pub(super) fn follow(request: RequestBuilder) -> Box<Follow> {
    Box::new(move |status, location: &[u8]| {
        let mut next = next(&request, status, location)?;
        let send: Next = Box::new(move |promise, took| {
            next.timeout = next.timeout.map(|limit| limit.saturating_sub(took));
            let place = next.client.place();
            drop(next.send_to(place, promise, None));
        });
        Some(send)
    })
}

/// Returns the next request. Returns `None` if the response is no redirect that can be followed: then
/// the caller gets it.
fn next(request: &RequestBuilder, status: u16, location: &[u8]) -> Option<RequestBuilder> {
    let method = Method::from(request.method.as_str());
    if !matches!(status, 301 | 302 | 303 | 307 | 308) || method == Method::Connect {
        return None;
    }
    let from = request.url.as_ref().ok()?;
    let target = from.join(std::str::from_utf8(location).ok()?);
    let url = Url::parse(&target).ok()?;
    let is_same = (url.secure, &url.host, url.port) == (from.secure, &from.host, from.port);
    let to_get = match status {
        301 | 302 => method == Method::Post,
        303 => !matches!(method, Method::Get | Method::Head),
        _ => false,
    };
    let keeps = |name: &str| {
        let is = |own: &&str| name.eq_ignore_ascii_case(own);
        (is_same || !PRIVATE.iter().any(is)) && (!to_get || !OF_BODY.iter().any(is))
    };
    let method = if to_get { Method::Get } else { method };
    let mut next = RequestBuilder::new(request.client.clone(), method, &target);
    next.fields = filter(&request.fields, keeps);
    next.has_host = request.has_host && is_same;
    next.body = request.body.clone().filter(|_| !to_get);
    next.expects = request.expects;
    next.upgrade = request.upgrade.clone();
    next.redirects = request.redirects - 1;
    next.timeout = request.timeout;
    Some(next)
}

/// Returns the lines whose name is kept.
fn filter(fields: &[u8], keeps: impl Fn(&str) -> bool) -> BytesMut {
    let mut kept = BytesMut::with_capacity(fields.len());
    // Values have no line ends: that was checked when they were written.
    for line in fields.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if std::str::from_utf8(name).is_ok_and(&keeps) {
            kept.extend_from_slice(line);
        }
    }
    kept
}
