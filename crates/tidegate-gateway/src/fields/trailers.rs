//! Which fields pass behind a body. A trailer never carries what the head may not: many servers merge both.

use tidegate::http::codec::{BodyFraming, Fields, KnownField, RequestHead, Trailers};

use super::back::{is_of_gateway, names_field};
use super::forward::is_claim;
use super::ids::is_traced;
use super::rewrite::Rewriting;

/// What `Connection` says in the head before a body with trailers: it may name fields that do not pass.
#[derive(Debug, Default)]
pub(crate) struct Options(Option<Box<[u8]>>);

impl Options {
    /// Copies the options of a request whose body may have trailers.
    pub(crate) fn of_request(head: &RequestHead<'_>) -> Self {
        match head.framing() {
            BodyFraming::Chunked => Self::of(head.fields()),
            _ => Self::default(),
        }
    }

    /// Copies the options of a head.
    pub(crate) fn of(head: Fields<'_>) -> Self {
        let values: Vec<&[u8]> = head.get_all("connection").collect();
        let has_any = !values.is_empty();
        Self(has_any.then(|| values.join(&b',').into()))
    }

    fn name(&self, name: &[u8]) -> bool {
        let options = self.0.as_deref();
        options.is_some_and(|options| names_field(options, name))
    }
}

/// Returns the trailers of a request that pass on. What a client says about itself or others is never a
/// trailer, also if it is trusted: a proxy may pass on the trailers of its own client.
pub(crate) fn request_trailers<'a>(
    lines: &'a [u8],
    options: &Options,
    rewriting: &Rewriting,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    passing(lines, options, |name| {
        let is_own = is_claim(name, false) || is_traced(name);
        !is_own && !rewriting.replaces_in_request(name)
    })
}

/// Returns the trailers of a response that go back to the client.
pub(crate) fn response_trailers<'a>(
    lines: &'a [u8],
    options: &Options,
    rewriting: &Rewriting,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    passing(lines, options, |name| !rewriting.replaces(name))
}

fn passing<'a>(
    lines: &'a [u8],
    options: &Options,
    passes: impl Fn(&[u8]) -> bool,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let fields = Trailers::new(lines).filter(move |field| {
        let name = field.name.as_bytes();
        is_trailer(name) && !options.name(name) && passes(name)
    });
    fields.map(|field| (field.name, field.value))
}

/// Returns `true` if a field may be a trailer: it changes neither the framing nor the routing nor
/// the meaning of the message (RFC 9110, section 6.5.1).
fn is_trailer(name: &[u8]) -> bool {
    const NEVER: [&str; 30] = [
        "age",
        "authorization",
        "cache-control",
        "content-encoding",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "retry-after",
        "set-cookie",
        "strict-transport-security",
        "vary",
        "via",
        "warning",
        "www-authenticate",
    ];
    let is = |never: &&str| name.eq_ignore_ascii_case(never.as_bytes());
    KnownField::of(name).is_none() && !is_of_gateway(name) && !NEVER.iter().any(is)
}

#[cfg(test)]
mod tests {
    //! Trailers that pass and trailers that do not.

    use std::collections::BTreeMap;

    use super::*;
    use crate::config::types::Rewrite;
    use crate::fields::forward::tests::head_of;

    fn rewriting() -> Rewriting {
        let fields = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        let rewrite = Rewrite {
            path: None,
            host: None,
            request: fields("x-user"),
            response: fields("x-debug"),
        };
        Rewriting::new(Some(&rewrite)).unwrap()
    }

    /// Returns whether a field passes behind a request and behind a response.
    fn passes(name: &str) -> (bool, bool) {
        let head = head_of("Connection: close, X-Hop\r\nConnection: x-other\r\n");
        let options = Options::of(head.as_head().fields());
        let (line, rewriting) = (format!("{name}: 1\r\n\r\n"), rewriting());
        let mut request = request_trailers(line.as_bytes(), &options, &rewriting);
        let mut response = response_trailers(line.as_bytes(), &options, &rewriting);
        (request.next().is_some(), response.next().is_some())
    }

    #[test]
    fn trailers_change_no_framing_and_no_meaning() {
        for (name, expected) in [
            ("Checksum", true),
            ("Grpc-Status", true),
            ("Server-Timing", true),
            ("ETag", true),
            ("Content-Length", false),
            ("Transfer-Encoding", false),
            ("Host", false),
            ("Set-Cookie", false),
            ("trailer", false),
            ("Tidegate-Failed", false),
            ("Proxy-Authorization", false),
            ("If-None-Match", false),
            ("via", false),
        ] {
            assert_eq!(passes(name), (expected, expected), "{name}");
        }
    }

    #[test]
    fn trailers_of_a_request_claim_nothing() {
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "x-forwarded-user",
            "X_Forwarded_For",
            "X-Real-IP",
            "X-Request-Id",
            "X_Request_Id",
            "traceparent",
            "tracestate",
        ] {
            assert!(!passes(name).0, "{name}");
        }
    }

    #[test]
    fn fields_of_the_connection_are_no_trailers() {
        for name in ["x-hop", "X-Other", "Keep-Alive", "Proxy-Connection", "TE"] {
            assert_eq!(passes(name), (false, false), "{name}");
        }
    }

    #[test]
    fn fields_that_the_route_sets_or_removes_are_no_trailers() {
        assert_eq!(passes("X-User"), (false, true));
        assert_eq!(passes("X-Debug"), (true, false));
    }
}
