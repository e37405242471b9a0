//! Which fields of a response go back to the client.

use tidegate::http::codec::{Fields, KnownField};

use crate::command::Reason;

/// The fields of a response that belong to the connection of the upstream, that the server sets itself,
/// or in which the gateway speaks.
#[derive(Debug)]
pub(crate) struct Dropped<'a> {
    fields: Fields<'a>,
    /// The response has a field `Connection`, which may name more.
    has_options: bool,
}

impl<'a> Dropped<'a> {
    pub(crate) fn new(fields: Fields<'a>, has_options: bool) -> Self {
        Self {
            fields,
            has_options,
        }
    }

    /// Returns `true` if the field does not go back to the client.
    // It runs for each field of a response.
    #[inline]
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        // Most names have other lengths.
        matches!(name.len(), 2 | 7 | 10 | 14..=17) && is_own(name)
            || self.has_options && self.is_named(name)
    }

    /// Returns `true` if `Connection` names the field.
    fn is_named(&self, name: &[u8]) -> bool {
        let mut values = self.fields.get_all("connection");
        values.any(|value| {
            let mut options = value.split(|byte| *byte == b',');
            options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
        })
    }
}

/// Returns `true` if a field never goes back to the client, whatever `Connection` names.
#[inline(never)]
fn is_own(name: &[u8]) -> bool {
    use KnownField::{Connection, ContentLength, Te, TransferEncoding, Upgrade};
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match KnownField::of(name) {
        Some(Connection | ContentLength | Te | TransferEncoding | Upgrade) => true,
        _ => is("keep-alive") || is("proxy-connection") || is_of_gateway(name),
    }
}

/// Returns `true` for the fields that say why the gateway itself has responded. A server that sends them
/// would be taken for the gateway.
fn is_of_gateway(name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    is(Reason::REFUSED) || is(Reason::FAILED)
}

/// Returns `true` if a field may be a trailer: it changes neither the framing nor the routing nor
/// the meaning of the message (RFC 9110, section 6.5.1).
pub(crate) fn is_trailer(name: &str) -> bool {
    const NEVER: [&str; 14] = [
        "authorization",
        "cache-control",
        "content-encoding",
        "content-range",
        "content-type",
        "cookie",
        "keep-alive",
        "location",
        "max-forwards",
        "proxy-connection",
        "range",
        "retry-after",
        "set-cookie",
        "vary",
    ];
    let known = KnownField::of(name.as_bytes()).is_some() || is_of_gateway(name.as_bytes());
    !known && !NEVER.iter().any(|never| name.eq_ignore_ascii_case(never))
}

#[cfg(test)]
mod tests {
    //! Fields that pass and fields that do not.

    use super::*;
    use crate::fields::forward::tests::head_of;

    #[test]
    fn fields_of_the_connection_do_not_go_back() {
        let head = head_of("Connection: x-own, close\r\nX-Own: 1\r\n");
        let dropped = Dropped::new(head.as_head().fields(), true);
        let rows = [
            ("Connection", true),
            ("X-OWN", true),
            ("keep-alive", true),
            ("Proxy-Connection", true),
            ("TE", true),
            ("Upgrade", true),
            ("transfer-encoding", true),
            ("Content-Length", true),
            ("Tidegate-Refused", true),
            ("tidegate-failed", true),
            ("Content-Type", false),
            ("Set-Cookie", false),
            ("X-Frame-Options", false),
            ("Trailer", false),
        ];
        for (name, expected) in rows {
            assert_eq!(dropped.contains(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn trailers_change_no_framing_and_no_meaning() {
        for (name, expected) in [
            ("Checksum", true),
            ("Grpc-Status", true),
            ("Content-Length", false),
            ("Transfer-Encoding", false),
            ("Host", false),
            ("Set-Cookie", false),
            ("trailer", false),
            ("Tidegate-Failed", false),
        ] {
            assert_eq!(is_trailer(name), expected, "{name}");
        }
    }
}
