//! The classes of bytes, and searches in runs of bytes.
//!
//! One table holds all classes, one bit each. Names and targets are short, and are looked up byte by
//! byte. Field values are searched eight bytes at a time, in one word.

/// The bytes of a token: names of fields, methods, codings (RFC 9110, 5.6.2).
pub(super) const TOKEN: u8 = 1;
/// The bytes of a query, and the question mark before it: all visible ones that a browser sends as
/// they are, which are more than RFC 3986 has. `"`, `#`, `<`, `>` and bytes above 127 must be
/// percent-encoded.
pub(super) const QUERY: u8 = 2;
/// The bytes of a request target before its query. Without the back-tick, and without the backslash,
/// which some servers take for a slash.
pub(super) const PATH: u8 = 16;
/// The bytes of a host name: RFC 3986 without percent-encoding, which no resolver accepts, and
/// without the comma, which would separate two hosts.
pub(super) const HOST: u8 = 4;
/// The bytes of a field value: visible bytes, space, tab, and bytes above 127.
pub(super) const VALUE: u8 = 8;

const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        let sub_delimiter = matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        );
        let mut class = 0;
        if byte.is_ascii_alphanumeric() || is_token_mark(byte) {
            class |= TOKEN;
        }
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#' | b'<' | b'>') {
            class |= QUERY;
            if !matches!(byte, b'?' | b'\\' | b'`') {
                class |= PATH;
            }
        }
        if unreserved || (sub_delimiter && byte != b',') {
            class |= HOST;
        }
        if byte == b'\t' || (byte >= 0x20 && byte != 0x7f) {
            class |= VALUE;
        }
        table[i] = class;
        i += 1;
    }
    table
}

const fn is_token_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    )
}

/// Returns `true` if `byte` belongs to one of the `classes`.
#[inline(always)]
pub(super) const fn is(byte: u8, classes: u8) -> bool {
    CLASSES[byte as usize] & classes != 0
}

/// Returns `true` if all bytes belong to one `class`. Looks at all of them, without a branch for
/// each.
#[inline]
pub(super) fn all(bytes: &[u8], class: u8) -> bool {
    let common = |common, byte: &u8| common & CLASSES[usize::from(*byte)];
    bytes.iter().fold(class, common) != 0
}

/// Returns `true` if no byte of a request target must be percent-encoded.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    let query = find(bytes, b'?').unwrap_or(bytes.len());
    let (path, query) = bytes.split_at(query);
    all(path, PATH) && all(query, QUERY)
}

/// Returns `true` if `bytes` is a token: not empty, and nothing else than the bytes of one.
#[inline]
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// Returns the number of leading bytes that belong to one of the `classes`.
#[inline(always)]
pub(super) fn run(bytes: &[u8], classes: u8) -> usize {
    let mut rest = bytes;
    // Eight bytes without a test for the end of the input.
    while let Some(chunk) = rest.first_chunk::<8>() {
        let at = bytes.len() - rest.len();
        for (i, byte) in chunk.iter().enumerate() {
            if !is(*byte, classes) {
                return at + i;
            }
        }
        rest = &rest[8..];
    }
    bytes.len() - rest.len() + short_run(rest, classes)
}

/// The same near the end of the input.
#[inline]
fn short_run(bytes: &[u8], classes: u8) -> usize {
    let other = bytes.iter().position(|byte| !is(*byte, classes));
    other.unwrap_or(bytes.len())
}

/// Returns the number of leading bytes that may be part of a field value.
#[inline(always)]
pub(super) fn value_run(bytes: &[u8]) -> usize {
    // Most values end in the first words.
    let mut at = 0;
    for _ in 0..3 {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            at += stops.trailing_zeros() as usize / 8;
            break;
        }
        at += 8;
    }
    match bytes.get(at) {
        Some(byte) if is(*byte, VALUE) => value_run_from(bytes, at),
        _ => at,
    }
}

/// Continues a run: in a long value, at a byte that the test of a word did not accept, or near the
/// end of the input.
#[inline(never)]
fn value_run_from(bytes: &[u8], mut at: usize) -> usize {
    loop {
        while let Some(block) = bytes[at..].first_chunk::<32>() {
            let words = block.as_chunks().0.iter();
            let all = words.fold(0, |all, word| all | stops(u64::from_le_bytes(*word)));
            if all != 0 {
                break;
            }
            at += block.len();
        }
        while let Some(word) = bytes[at..].first_chunk() {
            let stops = stops(u64::from_le_bytes(*word));
            if stops != 0 {
                at += stops.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        if bytes.len() - at < 8 {
            return at + short_run(&bytes[at..], VALUE);
        }
        if !is(bytes[at], VALUE) {
            return at;
        }
        at += 1;
    }
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
/// The highest bit of each byte.
const HIGH: u64 = ONES << 7;

/// Returns a word whose lowest bit is in the first byte that is a control byte or DEL, or zero if
/// there is none.
///
/// It may also be in a byte after one of 255, whose sum carries into the next byte.
#[inline(always)]
const fn stops(word: u64) -> u64 {
    let below_space = word.wrapping_sub(ONES * b' ' as u64);
    let after_tilde = word.wrapping_add(ONES);
    // Bytes above 127 are fine.
    (below_space | after_tilde) & !word & HIGH
}

/// Returns the position of the first `byte`.
#[inline]
pub(super) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    memchr::memchr(byte, bytes)
}

/// Returns `bytes` without spaces and tabs at both ends.
#[inline]
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(&bytes[leading_space(bytes)..])
}

/// Returns the number of leading spaces and tabs.
#[inline(always)]
pub(super) fn leading_space(bytes: &[u8]) -> usize {
    let mut at = usize::from(bytes.first() == Some(&b' '));
    while let Some(byte) = bytes.get(at)
        && is_space(*byte)
    {
        at += 1;
    }
    at
}

/// Returns `bytes` without spaces and tabs at the end.
#[inline(always)]
pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns `true` for a space or a tab.
#[inline(always)]
pub(super) const fn is_space(byte: u8) -> bool {
    // One comparison for most bytes.
    byte <= b' ' && matches!(byte, b' ' | b'\t')
}

/// Returns bytes that were checked to be ASCII as text.
#[inline]
pub(super) fn ascii(bytes: &[u8]) -> &str {
    debug_assert!(bytes.is_ascii(), "only checked bytes become text");
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns the elements of a comma-separated list, without white space around them. Empty elements
/// are included.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_each_control_byte_except_tab() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255_u8 {
                    let mut bytes = vec![b'x'; length];
                    bytes[at] = byte;
                    let control = byte != b'\t' && (byte < 0x20 || byte == 0x7f);
                    let expected = if control { at } else { length };
                    assert_eq!(value_run(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn a_value_ends_there_whatever_surrounds_it() {
        for filler in [b"x", b"\xff", b"\t", b"~", b"\x80", b" "] {
            for length in 0..100 {
                assert_eq!(value_run(&filler.repeat(length)), length);
                for at in 0..length {
                    let mut bytes = filler.repeat(length);
                    bytes[at] = [b'\r', 0x7f, 0, 0x1f][at % 4];
                    assert_eq!(value_run(&bytes), at, "{}", bytes.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn a_run_ends_at_the_first_other_byte() {
        for length in 0..40 {
            assert_eq!(run(&vec![b'a'; length], TOKEN), length);
            for at in 0..length {
                let mut bytes = vec![b'a'; length];
                bytes[at] = b':';
                assert_eq!(run(&bytes, TOKEN), at);
            }
        }
    }

    #[test]
    fn a_target_has_no_byte_that_must_be_encoded() {
        for byte in b"\"<># \x7f\x80\xff\0\t" {
            assert!(!is(*byte, PATH | QUERY), "{byte}");
        }
        for byte in b"?\\`" {
            assert!(is(*byte, QUERY) && !is(*byte, PATH), "{byte}");
        }
        assert!(is_target(b"/a-b_c.d~e!$&'()*+,;=:@/%20?q[]=1"));
    }

    #[test]
    fn a_target_has_what_browsers_send() {
        // WHATWG URL, 1.3: the sets of bytes that are encoded in a query and in a path.
        let query: Vec<u8> = (b'!'..=b'~').filter(|b| !b"\"#<>".contains(b)).collect();
        assert!(is_target(&[b"/?", &query[..]].concat()));
        let path = |byte: &u8| !b"?`{}\\".contains(byte);
        let path: Vec<u8> = query.into_iter().filter(path).collect();
        assert!(is_target(&[b"/", &path[..]].concat()));
        assert!(!is_target(b"/\\?x") && !is_target(b"/`") && !is_target(b"/?\""));
    }
}
