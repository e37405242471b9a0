//! Conditional requests (RFC 9110, section 13), in their order of precedence.

use super::validators::Validators;
use crate::codec::{Fields, HttpDate};

/// What the conditions of a request decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file is sent.
    Send,
    /// Status 304: the client has the current content.
    NotModified,
    /// Status 412: the client expects another content.
    Failed,
}

/// Evaluates the conditions of a `GET` or `HEAD` request. A date that cannot be read is ignored, as
/// the specification says.
pub(super) fn evaluate(fields: Fields<'_>, current: &Validators) -> Verdict {
    let date = |name| fields.get(name).and_then(HttpDate::parse);
    if fields.get("If-Match").is_some() {
        if !lists(fields, "If-Match", |tag| current.matches_strongly(tag)) {
            return Verdict::Failed;
        }
    } else if date("If-Unmodified-Since").is_some_and(|limit| current.modified > limit) {
        return Verdict::Failed;
    }
    if fields.get("If-None-Match").is_some() {
        if lists(fields, "If-None-Match", |tag| current.matches_weakly(tag)) {
            return Verdict::NotModified;
        }
    } else if date("If-Modified-Since").is_some_and(|known| current.modified <= known) {
        return Verdict::NotModified;
    }
    Verdict::Send
}

/// Returns `true` if a `Range` may be used: there is no `If-Range`, or it names the current content.
pub(super) fn allows_range(fields: Fields<'_>, current: &Validators) -> bool {
    let Some(known) = fields.get("If-Range") else {
        return true;
    };
    match HttpDate::parse(known) {
        Some(date) => current.has_strong_date() && date == current.modified,
        None => current.matches_strongly(known),
    }
}

/// Returns `true` if the fields of that name have a tag for which `matches`, or `*`.
fn lists(fields: Fields<'_>, name: &str, matches: impl Fn(&[u8]) -> bool) -> bool {
    let mut values = fields.get_all(name);
    values.any(|value| value.trim_ascii() == b"*" || tags(value).any(&matches))
}

/// Returns the tags of a list, each with its quotes and its mark. Ends at the first malformed one.
fn tags(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = list
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        list = &list[start..];
        let quote = if list.starts_with(b"W/\"") { 2 } else { 0 };
        let inner = list.get(quote..)?.strip_prefix(b"\"")?;
        let length = inner.iter().position(|byte| *byte == b'"')?;
        let (tag, rest) = list.split_at(quote + length + 2);
        list = rest;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_separated_by_commas_and_may_contain_them() {
        let cases: [(&str, &[&str]); 8] = [
            ("\"a\"", &["\"a\""]),
            ("\"a\", W/\"b\",\"c,d\"", &["\"a\"", "W/\"b\"", "\"c,d\""]),
            (" ,, \"a\" ", &["\"a\""]),
            ("\"\"", &["\"\""]),
            ("a", &[]),
            ("\"a\", b, \"c\"", &["\"a\""]),
            ("\"a", &[]),
            ("w/\"a\"", &[]),
        ];
        for (list, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|tag| tag.as_bytes()).collect();
            assert_eq!(
                tags(list.as_bytes()).collect::<Vec<_>>(),
                expected,
                "{list}"
            );
        }
    }
}
