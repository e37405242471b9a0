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
        values.any(|value| names_field(value, name))
    }
}

/// Returns `true` if a value of `Connection` names the field.
pub(super) fn names_field(options: &[u8], name: &[u8]) -> bool {
    let mut options = options.split(|byte| *byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
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
pub(super) fn is_of_gateway(name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    is(Reason::REFUSED) || is(Reason::FAILED)
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
}
