//! Parses field lines: of requests, responses and trailer sections.
//!
//! A line is a token, a colon, and a value without control bytes; it ends in CR LF. Nothing else is
//! accepted. Which rule a line breaks is found out in functions that are not on the fast path.

use crate::codec::chars::{self, TOKEN};
use crate::codec::known::KnownField;
use crate::codec::refusal::RefusalReason;

use super::fields::Field;
use super::table::Span;

/// Parses the field lines of `input` from the offset `start`, and passes each field to `each`. Returns
/// the offset after the empty line.
///
/// `input` has at most 65,535 bytes, so that each offset fits in 16 bits.
#[inline(always)]
pub(in crate::codec) fn lines(
    input: &[u8],
    start: usize,
    mut each: impl FnMut(Span, Option<KnownField>) -> Result<(), RefusalReason>,
) -> Result<usize, RefusalReason> {
    let mut line = input.get(start..).unwrap_or_default();
    loop {
        let at = input.len() - line.len();
        let name = chars::run(line, TOKEN);
        let Some((b':', after)) = line.get(name..).and_then(<[u8]>::split_first) else {
            return match line {
                [b'\r', b'\n', ..] => Ok(at + 2),
                _ => Err(bad_name(line, name)),
            };
        };
        if name == 0 {
            return Err(RefusalReason::EmptyName);
        }
        let known = KnownField::of_token(&line[..name]);
        let space = chars::leading_space(after);
        let value = &after[space..];
        let (text, end) = value.split_at(chars::value_run(value));
        let Some((b"\r\n", next)) = end.split_first_chunk() else {
            return Err(bad_line_end(end));
        };
        let value = at + name + 1 + space;
        let span = Span {
            name: at as u16,
            name_end: (at + name) as u16,
            value: value as u16,
            value_end: (value + chars::trim_end(text).len()) as u16,
        };
        each(span, known)?;
        line = next;
    }
}

/// Splits one line that was accepted before, without its line end.
pub(in crate::codec) fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = chars::find(line, b':')?;
    Some(Field {
        name: chars::ascii(&line[..colon]),
        value: chars::trim(&line[colon + 1..]),
    })
}

/// Returns the rule that a line breaks whose first `name` bytes are a token, and no colon follows.
#[cold]
fn bad_name(line: &[u8], name: usize) -> RefusalReason {
    let rest = line.get(name..).unwrap_or_default();
    match rest {
        [b' ' | b'\t', ..] if name == 0 => RefusalReason::FoldedLine,
        [b' ' | b'\t', ..] => {
            let after = &rest[chars::leading_space(rest)..];
            let line = &after[..chars::value_run(after)];
            match chars::find(line, b':') {
                Some(0) => RefusalReason::SpaceBeforeColon,
                Some(_) => RefusalReason::FieldName,
                None => RefusalReason::MissingColon,
            }
        }
        [] | [b'\r', b'\n', ..] => RefusalReason::MissingColon,
        [first, ..] if chars::is(*first, chars::VALUE) => RefusalReason::FieldName,
        _ => bad_line_end(rest),
    }
}

/// Returns the rule that `rest` breaks where a line should end.
#[cold]
pub(super) fn bad_line_end(rest: &[u8]) -> RefusalReason {
    match rest {
        [] => RefusalReason::UnexpectedEnd,
        [b'\r', ..] => RefusalReason::BareCr,
        [b'\n', ..] => RefusalReason::BareLf,
        _ => RefusalReason::ControlByte,
    }
}
