//! What names a secret, and which parts of a file are hidden because of it.
//!
//! Where the syntax is right, the tree knows the key of each value. Where it is wrong, only lines are known:
//! what follows the name of a secret in a line is hidden, also if the mistake is in another line.

use std::ops::Range;

/// The words of which each makes a name that of a secret, wherever they are in it.
const WORDS: [&str; 10] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "cookie",
    "api-key",
    "api_key",
    "apikey",
];

/// The words that are often written wrongly.
const NEAR: [&str; 5] = ["token", "secret", "password", "authorization", "cookie"];

/// The words that are too short to be looked for inside of others.
const SHORT: [&str; 3] = ["pass", "pwd", "bearer"];

/// Returns `true` if the name of a key or a field is that of a secret, or similar to one: what is hidden
/// needlessly does less harm than a secret that is shown because its key is wrong.
pub(super) fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if WORDS.iter().any(|word| name.contains(word)) {
        return true;
    }
    let is_near = |part: &str| {
        let size = part.len();
        let mut near = NEAR.iter().filter(|word| size.abs_diff(word.len()) <= 4);
        near.any(|word| strsim::osa_distance(part, word) <= word.len() / 3)
    };
    let parts = name.split(|c: char| !c.is_alphanumeric());
    let mut parts = parts.filter(|part| !part.is_empty());
    parts.any(|part| SHORT.contains(&part) || is_near(part))
}

/// Returns the ranges of a text with mistakes of syntax that may be secrets: the rest of each line that
/// names one, and the lines that its value may go on in.
pub(super) fn in_lines(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<&'static str> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let whole = start..start + line.trim_end_matches(['\n', '\r']).len();
        start += line.len();
        let line = &text[whole.clone()];
        // A value that has not ended goes on, until its end or the next section.
        if let Some(end) = open
            && !line.starts_with('[')
        {
            let goes_on = match end {
                "" => line.trim_start().is_empty(),
                end => !line.contains(end),
            };
            found.push(whole);
            open = open.filter(|_| goes_on);
            continue;
        }
        let value = value_in(line);
        open = value
            .as_ref()
            .and_then(|value| opened(&line[value.clone()]));
        found.extend(value.map(|value| whole.start + value.start..whole.end));
    }
    found
}

/// Returns the part of a line that may be a secret.
fn value_in(line: &str) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
    let mut rest = 0;
    let end = loop {
        let begin = rest + line[rest..].find(is_part)?;
        let word = &line[begin..];
        let word = &word[..word.find(|c| !is_part(c)).unwrap_or(word.len())];
        rest = begin + word.len();
        if names_secret(word) {
            break rest;
        }
    };
    let start = match line.find(['=', ':']) {
        Some(at) if at < end => at + 1,
        Some(at)
            if line[end..at]
                .trim_matches(['"', '\'', '.', ' ', '\t', ']'])
                .is_empty() =>
        {
            at + 1
        }
        _ => end,
    };
    Some(start..line.len())
}

/// Returns what ends a value that goes on in the next lines; empty if it has not begun.
fn opened(value: &str) -> Option<&'static str> {
    for (open, end) in [("\"\"\"", "\"\"\""), ("'''", "'''"), ("[", "]"), ("{", "}")] {
        if let Some((_, rest)) = value.split_once(open) {
            return (!rest.contains(end)).then_some(end);
        }
    }
    let is_missing = value.trim_matches(['=', ':', ' ', '\t']).is_empty();
    is_missing.then_some("")
}

#[cfg(test)]
mod tests {
    //! Names of secrets, and lines with them.

    use super::{in_lines, names_secret};
    use crate::config::load::sections;
    use crate::config::setting::Section;

    #[test]
    fn names_of_secrets_are_known_also_if_they_are_written_wrongly() {
        for name in [
            "token",
            "tokens",
            "tokn",
            "Read-Token",
            "read_tokne",
            "pasword",
            "passwort",
            "X-Api-Key",
            "authorisation",
            "Set-Cookie",
            "proxy-authorization",
            "cooky",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "host",
            "x-source",
            "",
            "tenant",
            "é",
            "server-name",
            "token",
        ] {
            assert_eq!(names_secret(name), name == "token", "{name}");
        }
    }

    /// Returns the names of all keys of a section.
    fn keys(section: &Section, all: &mut Vec<&'static str>) {
        for field in &section.fields {
            all.push(field.name);
            if let Some(section) = &field.section {
                keys(section, all);
            }
        }
    }

    #[test]
    fn no_other_setting_has_a_name_like_that_of_a_secret() {
        let mut all = Vec::new();
        for (_, section) in sections() {
            keys(&section, &mut all);
        }
        all.retain(|key| names_secret(key));
        assert_eq!(all, ["token", "read_token"]);
    }

    #[test]
    fn the_rest_of_a_line_that_names_a_secret_is_hidden() {
        let rows = [
            ("a = 1\ntoken = MARKER\n", "a = 1\ntoken =\n"),
            ("token : MARKER", "token :"),
            ("\"tokn\" = MARKER", "\"tokn\" ="),
            ("token MARKER = 1", "token"),
            ("token\n\n= MARKER\nb = 1", "token\n\n\nb = 1"),
            ("token = '''\nMARKER\n'''\nb = 1", "token =\n\n\nb = 1"),
            ("tokens = [\nMARKER,\n]\nb = 1", "tokens =\n\n\nb = 1"),
            (
                "tokens = [\nMARKER,\n[log]\nb = 1",
                "tokens =\n\n[log]\nb = 1",
            ),
            ("r = { cookie = MARKER }\r\nb = 1", "r =\r\nb = 1"),
            ("a = 1\n[route.token]\nb = 1", "a = 1\n[route.token\nb = 1"),
        ];
        for (text, shown) in rows {
            let mut left = text.to_owned();
            for range in in_lines(text).into_iter().rev() {
                left.replace_range(range, "");
            }
            assert_eq!(left, shown, "{text}");
        }
    }
}
