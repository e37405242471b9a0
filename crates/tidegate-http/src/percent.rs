//! Percent-encoded text of a target.

use std::borrow::Cow;

/// Decodes percent-encoded text. Returns borrowed text if nothing is encoded, and `None` if an
/// encoding is malformed or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            decoded.push(first);
            continue;
        }
        let &[high, low, ref behind @ ..] = rest else {
            return None;
        };
        decoded.push(digit(high)? << 4 | digit(low)?);
        rest = behind;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_is_encoded_and_refuses_what_is_malformed() {
        let cases = [
            ("", Some("")),
            ("plain", Some("plain")),
            ("a%20b", Some("a b")),
            ("%c3%A9", Some("é")),
            ("%2f%2F", Some("//")),
            ("%00", Some("\0")),
            ("100%", None),
            ("%2", None),
            ("%zz", None),
            ("%+1", None),
            ("%ff", None),
            ("%c3", None),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
        assert!(matches!(decode("plain"), Some(Cow::Borrowed(_))));
    }
}
