//! The field `Range` (RFC 9110, section 14).

use std::ops::Range;

/// What is sent of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, with status 200.
    Whole,
    /// One range, with status 206.
    Range(Range<u64>),
    /// Nothing, with status 416: the file has none of the ranges.
    Unsatisfiable,
}

/// Returns what the field asks for, of a file of `size` bytes.
///
/// A malformed field and another unit than bytes are ignored. If the file has several of the ranges,
/// the whole file is sent, which the specification allows: responses with many parts cost more than
/// they save, and have been used for attacks.
pub(super) fn select(field: &[u8], size: u64) -> Part {
    let Some(set) = field.strip_prefix(b"bytes=") else {
        return Part::Whole;
    };
    let mut found = None;
    let (mut any, mut several) = (false, false);
    for spec in set.split(|byte| *byte == b',') {
        let spec = spec.trim_ascii();
        if spec.is_empty() {
            continue;
        }
        let Some(range) = parse(spec, size) else {
            return Part::Whole;
        };
        any = true;
        if !range.is_empty() {
            several |= found.is_some();
            found = Some(range);
        }
    }
    match found {
        Some(range) if !several => Part::Range(range),
        None if any => Part::Unsatisfiable,
        _ => Part::Whole,
    }
}

/// Returns the range that a part of the field means, empty if the file does not have it; `None` if it
/// is malformed.
fn parse(spec: &[u8], size: u64) -> Option<Range<u64>> {
    let dash = spec.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(size.saturating_sub(number(last)?)..size),
        (false, true) => Some(number(first)?.min(size)..size),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            Some(first.min(size)..last.saturating_add(1).min(size))
        }
    }
}

/// Returns a number of any length; one that is too large counts as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_selected_and_malformed_fields_are_ignored() {
        use Part::{Range, Unsatisfiable, Whole};
        let cases = [
            ("bytes=0-0", Range(0..1)),
            ("bytes=0-9", Range(0..10)),
            ("bytes=2-5", Range(2..6)),
            ("bytes=5-", Range(5..10)),
            ("bytes=5-999", Range(5..10)),
            ("bytes=-3", Range(7..10)),
            ("bytes=-999", Range(0..10)),
            ("bytes= 2-5 ", Range(2..6)),
            ("bytes=2-5,", Range(2..6)),
            ("bytes=0-99999999999999999999999", Range(0..10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-20", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=20-30,40-", Unsatisfiable),
            ("bytes=20-30,1-2", Range(1..3)),
            ("bytes=0-1,4-5", Whole),
            ("bytes=0-,0-,0-,0-", Whole),
            ("bytes=5-2", Whole),
            ("bytes=", Whole),
            ("bytes=,", Whole),
            ("bytes=-", Whole),
            ("bytes=a-b", Whole),
            ("bytes=1-2x", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=0x1-2", Whole),
            ("bytes=1 - 2", Whole),
            ("bytes=1-2,x", Whole),
            ("bytes 1-2", Whole),
            ("lines=1-2", Whole),
            ("", Whole),
        ];
        for (field, expected) in cases {
            assert_eq!(select(field.as_bytes(), 10), expected, "{field}");
        }
        assert_eq!(select(b"bytes=0-", 0), Unsatisfiable);
        assert_eq!(select(b"bytes=-5", 0), Unsatisfiable);
    }
}
