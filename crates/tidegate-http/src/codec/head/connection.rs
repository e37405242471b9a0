//! The options of `Connection`: whether a connection is kept, closed or upgraded.

use crate::codec::chars;
use crate::codec::version::Version;

/// `close` is one of the options.
pub(super) const CLOSE: u8 = 1;
/// `keep-alive` is one of the options.
pub(super) const KEEP_ALIVE: u8 = 2;
/// `upgrade` is one of the options.
pub(super) const UPGRADE: u8 = 4;

/// The most bytes of all `Connection` fields of a head. A proxy compares each name of a field with
/// each option, so that long lists would cost the product of both.
pub(super) const MOST_BYTES: usize = 256;

/// Returns the options of one `Connection` field as bits, or `None` if it is not a list of tokens, or
/// too long.
///
/// Empty elements are ignored, as RFC 9110 (5.6.1.2) demands.
#[inline]
pub(super) fn options(value: &[u8]) -> Option<u8> {
    if value.len() > MOST_BYTES {
        return None;
    }
    let mut bits = 0;
    for option in chars::list(value).filter(|option| !option.is_empty()) {
        if option.eq_ignore_ascii_case(b"keep-alive") {
            bits |= KEEP_ALIVE;
        } else if option.eq_ignore_ascii_case(b"close") {
            bits |= CLOSE;
        } else if option.eq_ignore_ascii_case(b"upgrade") {
            bits |= UPGRADE;
        } else if !chars::is_token(option) {
            return None;
        }
    }
    Some(bits)
}

/// Returns `true` if a message of this version with these options leaves the connection open.
#[inline]
pub(super) const fn keeps_alive(version: Version, options: u8) -> bool {
    match version {
        Version::Http11 => options & CLOSE == 0,
        Version::Http10 => options & (CLOSE | KEEP_ALIVE) == KEEP_ALIVE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_tokens_in_any_case() {
        assert_eq!(options(b"Keep-Alive"), Some(KEEP_ALIVE));
        assert_eq!(options(b"x-mine, CLOSE ,\tupgrade"), Some(CLOSE | UPGRADE));
        assert_eq!(options(b",, ,"), Some(0));
        assert_eq!(options(b"close\xa0"), None);
        assert_eq!(options(b"close;x"), None);
    }

    #[test]
    fn a_list_is_not_longer_than_any_that_is_used() {
        assert_eq!(options(&[b','; MOST_BYTES]), Some(0));
        assert_eq!(options(&[b','; MOST_BYTES + 1]), None);
    }

    #[test]
    fn close_is_stronger_than_keep_alive() {
        use Version::{Http10, Http11};
        assert!(keeps_alive(Http11, 0));
        assert!(!keeps_alive(Http10, 0));
        assert!(keeps_alive(Http10, KEEP_ALIVE));
        assert!(!keeps_alive(Http10, KEEP_ALIVE | CLOSE));
        assert!(!keeps_alive(Http11, KEEP_ALIVE | CLOSE));
    }
}
