//! Redirects: the next request after a response of the status 301, 302, 303, 307 or 308.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::Client;
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

/// What the next request of a call is made of.
pub(super) struct Redirect {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) method: String,
    /// The fields as they are sent.
    pub(super) fields: Bytes,
    pub(super) has_host: bool,
    pub(super) body: Option<Bytes>,
    pub(super) expects: Option<Duration>,
    pub(super) upgrade: Option<String>,
    /// How many redirects the call still follows, at least one.
    pub(super) left: u8,
    pub(super) timeout: Option<Duration>,
}

impl Redirect {
    /// Returns what follows redirects, for a call.
    pub(super) fn into_follow(self) -> Box<Follow> {
        Box::new(move |status, location: &[u8]| {
            let mut next = self.next(status, location)?;
            let send: Next = Box::new(move |promise, took| {
                next.timeout = next.timeout.map(|limit| limit.saturating_sub(took));
                next.send_to(promise);
            });
            Some(send)
        })
    }

    /// Returns the next request. Returns `None` if the response is no redirect that can be followed:
    /// then the caller gets it.
    fn next(&self, status: u16, location: &[u8]) -> Option<RequestBuilder> {
        let is_tunnel = self.method == Method::Connect.as_str();
        if !matches!(status, 301 | 302 | 303 | 307 | 308) || is_tunnel {
            return None;
        }
        let target = self.url.join(std::str::from_utf8(location).ok()?);
        let url = Url::parse(&target).ok()?;
        let is_same =
            (url.secure, &url.host, url.port) == (self.url.secure, &self.url.host, self.url.port);
        let method = Method::from(self.method.as_str());
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
        let mut next = RequestBuilder::new(self.client.clone(), method, &target);
        next.fields = filter(&self.fields, keeps);
        next.has_host = self.has_host && is_same;
        next.body = self.body.clone().filter(|_| !to_get);
        next.expects = self.expects;
        next.upgrade = self.upgrade.clone();
        next.redirects = self.left - 1;
        next.timeout = self.timeout;
        Some(next)
    }
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
