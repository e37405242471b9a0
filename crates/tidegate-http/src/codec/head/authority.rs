//! Hosts and ports, of `Host` fields and of request targets.

use std::net::Ipv6Addr;

use crate::codec::chars::{self, HOST};

/// A host and an optional port, both checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Authority<'a> {
    /// A host name, an IPv4 address, or an IPv6 address in brackets.
    pub(super) host: &'a [u8],
    pub(super) port: Option<&'a [u8]>,
}

impl<'a> Authority<'a> {
    /// Returns the parts of `text`, or `None` if it is not a host with an optional port.
    ///
    /// An empty host and an empty port are refused, and so is user information.
    #[inline]
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        Self::parse_in(text, text.len())
    }

    /// The same for the first `length` bytes of `text`. It is faster if further bytes follow them.
    #[inline]
    pub(super) fn parse_in(text: &'a [u8], length: usize) -> Option<Self> {
        let run = chars::run(text, HOST).min(length);
        let text = &text[..length];
        let length = match text {
            [b'[', ..] => bracketed(text)?,
            _ => run,
        };
        let (host, rest) = text.split_at(length);
        match rest {
            _ if host.is_empty() => None,
            [] => Some(Self { host, port: None }),
            [b':', port @ ..] if is_port(port) => Some(Self {
                host,
                port: Some(port),
            }),
            _ => None,
        }
    }

    /// Returns `true` if both name the same host and port. Where one has no port, the other may have
    /// the `default`; without a default, it may have any.
    pub(super) fn fits(self, other: Self, default: Option<&[u8]>) -> bool {
        let fits = match (self.port.or(default), other.port.or(default)) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        fits && self.host.eq_ignore_ascii_case(other.host)
    }
}

/// Returns the length of an IPv6 address with its brackets.
#[cold]
fn bracketed(text: &[u8]) -> Option<usize> {
    let end = chars::find(text, b']')?;
    let address = std::str::from_utf8(text.get(1..end)?).ok()?;
    address.parse::<Ipv6Addr>().ok()?;
    Some(end + 1)
}

/// Returns `true` if `text` is a number of a port, in at most five digits.
#[inline]
fn is_port(text: &[u8]) -> bool {
    if text.is_empty() || text.len() > 5 {
        return false;
    }
    let mut number = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return false;
        }
        number = number * 10 + u32::from(byte - b'0');
    }
    number <= u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_hosts_with_and_without_a_port() {
        for text in [
            "a",
            "example.org",
            "a:1",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "a_b-c~d",
        ] {
            assert!(Authority::parse(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        let refused = [
            "",
            ":80",
            "a:",
            "a:65536",
            "a:000080",
            "a:8o",
            "a:-1",
            "u@a",
            "u:p@a",
            "a/",
            "a/b",
            "a?q",
            "a#f",
            "a b",
            "a,b",
            "a%20",
            "[::1",
            "::1",
            "[::1]x",
            "[]",
            "[v1.x]",
            "[fe80::1%251]",
            "a\\b",
            "\u{e4}",
            "a:1:2",
        ];
        for text in refused {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_default_port_may_be_left_out() {
        let fits = |one: &str, other: &str, default: Option<&str>| {
            let parse = |text| Authority::parse(text).expect("a valid authority");
            let (one, other) = (one.to_string(), other.to_string());
            parse(one.as_bytes()).fits(parse(other.as_bytes()), default.map(str::as_bytes))
        };
        assert!(fits("A.org", "a.ORG", Some("80")));
        assert!(fits("a:80", "a", Some("80")));
        assert!(!fits("a:81", "a", Some("80")));
        assert!(fits("a:443", "a", None));
        assert!(!fits("a:443", "a:80", None));
        assert!(!fits("a", "b", Some("80")));
    }
}
