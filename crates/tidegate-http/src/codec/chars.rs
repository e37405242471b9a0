//! The classes of bytes, and searches in runs of bytes.
//!
//! One table holds all classes, one bit each. Field values are searched eight bytes at a time.

/// The bytes of a token: names of fields, methods, codings (RFC 9110, 5.6.2).
pub(super) const TOKEN: u8 = 1;
/// The bytes of a request target: RFC 3986 without `#`. The bytes `"<>\^{|}` and the back-tick, and
/// bytes above 127, must be percent-encoded.
pub(super) const TARGET: u8 = 2;
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
        if unreserved
            || sub_delimiter
            || matches!(byte, b'%' | b'/' | b'?' | b':' | b'@' | b'[' | b']')
        {
            class |= TARGET;
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

/// Returns `true` if all bytes belong to one of the `classes`.
#[inline]
pub(super) fn all(bytes: &[u8], classes: u8) -> bool {
    bytes.iter().all(|byte| is(*byte, classes))
}

/// Returns `true` if `bytes` is a token: not empty, and nothing else than the bytes of one.
#[inline]
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// Returns the number of leading bytes that belong to one of the `classes`.
#[inline(always)]
pub(super) fn run(bytes: &[u8], classes: u8) -> usize {
    let other = bytes.iter().position(|byte| !is(*byte, classes));
    other.unwrap_or(bytes.len())
}

/// Returns the number of leading bytes that may be part of a field value.
#[inline]
pub(super) fn value_run(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(word) = rest.first_chunk::<8>() {
        let stops = controls(u64::from_le_bytes(*word));
        let length = match stops {
            0 => 8,
            _ => stops.trailing_zeros() as usize / 8,
        };
        rest = &rest[length..];
        if stops != 0 {
            if rest.first() != Some(&b'\t') {
                return bytes.len() - rest.len();
            }
            rest = &rest[1..];
        }
    }
    bytes.len() - rest.len() + run(rest, VALUE)
}

/// Returns a word whose lowest set bit is in the first byte that is below space or DEL.
///
/// Bytes after it may be wrong: a subtraction borrows from the next byte.
#[inline(always)]
const fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let del = word ^ (ONES * 0x7f);
    let is_del = del.wrapping_sub(ONES) & !del;
    (below_space | is_del) & HIGH
}

/// Returns the position of the first `byte`.
#[inline]
pub(super) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut rest = bytes;
    while let Some(word) = rest.first_chunk::<8>() {
        let differs = u64::from_le_bytes(*word) ^ (ONES * byte as u64);
        let zeros = differs.wrapping_sub(ONES) & !differs & HIGH;
        if zeros != 0 {
            return Some(bytes.len() - rest.len() + zeros.trailing_zeros() as usize / 8);
        }
        rest = &rest[8..];
    }
    let at = rest.iter().position(|own| *own == byte)?;
    Some(bytes.len() - rest.len() + at)
}

/// Returns `bytes` without spaces and tabs at both ends.
#[inline]
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(&bytes[leading_space(bytes)..])
}

/// Returns the number of leading spaces and tabs.
#[inline(always)]
pub(super) fn leading_space(bytes: &[u8]) -> usize {
    let other = bytes.iter().position(|byte| !is_space(*byte));
    other.unwrap_or(bytes.len())
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
    matches!(byte, b' ' | b'\t')
}

/// Returns bytes that were checked to be ASCII as text.
#[inline]
pub(super) fn ascii(bytes: &[u8]) -> &str {
    debug_assert!(bytes.is_ascii(), "only checked bytes become text");
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns the elements of a comma-separated list, without white space around them. Empty elements
/// are included.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
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
    fn high_bytes_before_a_control_byte_do_not_hide_it() {
        for high in [0x80, 0x9f, 0xa0, 0xff] {
            let mut bytes = [high; 16];
            bytes[11] = b'\r';
            assert_eq!(value_run(&bytes), 11);
        }
    }

    #[test]
    fn finds_the_first_of_a_byte() {
        for length in 0..30 {
            assert_eq!(find(&vec![b'a'; length], b'\n'), None);
            for at in 0..length {
                let mut bytes = vec![b'\x0b'; length];
                bytes[at..].fill(b'\n');
                assert_eq!(find(&bytes, b'\n'), Some(at));
            }
        }
    }

    #[test]
    fn a_target_has_no_byte_that_must_be_encoded() {
        for byte in b"\"<>\\^`{|}# \x7f\x80\xff\0\t" {
            assert!(!is(*byte, TARGET), "{byte}");
        }
        assert!(all(b"/a-b_c.d~e!$&'()*+,;=:@/%20?q[]=1", TARGET));
    }
}
