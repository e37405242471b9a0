//! Splits Rust source into tokens, in enough detail to tell code from comments and strings.
//!
//! This is not a compiler's lexer: it does not reject invalid Rust. It never treats the contents of
//! a string or a comment as code, nor a lifetime as a character.

use std::str::Chars;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword; a raw identifier without its `r#`.
    Word,
    /// A string, character or number.
    Literal,
    Lifetime,
    Comment,
    /// One character of punctuation.
    Mark,
}

/// One token and the line it begins on, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(super) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark && self.text.starts_with(mark)
    }

    /// Returns the lines of the token with their numbers; block comments and strings may have
    /// several.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let first = self.line;
        self.text
            .lines()
            .enumerate()
            .map(move |(i, line)| (first + i, line))
    }
}

/// Splits `source` into tokens; whitespace is dropped.
pub(super) fn lex(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let text = &rest[..length];
        if let Some(kind) = kind {
            let text = text
                .strip_prefix("r#")
                .filter(|_| kind == Kind::Word)
                .unwrap_or(text);
            tokens.push(Token {
                kind,
                text: text.to_string(),
                line,
            });
        }
        line += text.matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// Returns the kind (`None` for whitespace) and the length in bytes of the first token of `rest`.
fn next(rest: &str, first: char) -> (Option<Kind>, usize) {
    if first.is_whitespace() {
        (None, first.len_utf8())
    } else if rest.starts_with("//") {
        (Some(Kind::Comment), rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Some(Kind::Comment), block_comment(rest))
    } else if let Some(length) = prefixed_literal(rest) {
        (Some(Kind::Literal), length)
    } else if rest.starts_with("r#") && rest[2..].starts_with(starts_word) {
        (Some(Kind::Word), 2 + word(&rest[2..]))
    } else if starts_word(first) {
        (Some(Kind::Word), word(rest))
    } else if first.is_ascii_digit() {
        (Some(Kind::Literal), number(rest))
    } else if first == '"' {
        (Some(Kind::Literal), quoted(rest, '"'))
    } else if first == '\'' {
        character_or_lifetime(rest)
    } else {
        (Some(Kind::Mark), first.len_utf8())
    }
}

fn starts_word(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric())
        .unwrap_or(rest.len())
}

/// Returns the length of a number, which ends before a range (`0..n`) and before a method
/// (`1.max(n)`).
fn number(rest: &str) -> usize {
    let whole = word(rest);
    let fraction = rest[whole..]
        .strip_prefix('.')
        .filter(|f| f.starts_with(|c: char| c.is_ascii_digit()));
    fraction.map_or(whole, |f| whole + 1 + word(f))
}

/// Returns the length of a block comment; block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Returns the length of a literal with a prefix: `b'x'`, `b"x"`, `c"x"`, `r"x"`, `br#"x"#`.
fn prefixed_literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"]
        .into_iter()
        .find(|p| rest.starts_with(p))?;
    let body = &rest[prefix.len()..];
    let length = if prefix.ends_with('r') {
        raw(body)?
    } else if body.starts_with('"') {
        quoted(body, '"')
    } else if prefix == "b" && body.starts_with('\'') {
        quoted(body, '\'')
    } else {
        return None;
    };
    Some(prefix.len() + length)
}

/// Returns the length of a raw string after its prefix: hashes, quote, anything, quote, as many
/// hashes.
fn raw(body: &str) -> Option<usize> {
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside
        .find(&close)
        .map_or(inside.len(), |at| at + close.len());
    Some(hashes + 1 + end)
}

/// Returns the length of a quoted literal, including its quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut chars = rest.chars();
    chars.next();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            break;
        }
    }
    consumed(rest, &chars)
}

fn character_or_lifetime(rest: &str) -> (Option<Kind>, usize) {
    let mut chars = rest.chars();
    chars.next();
    let second = chars.next();
    if second == Some('\\') || chars.next() == Some('\'') {
        (Some(Kind::Literal), quoted(rest, '\''))
    } else {
        (Some(Kind::Lifetime), 1 + word(&rest[1..]))
    }
}

fn consumed(rest: &str, chars: &Chars<'_>) -> usize {
    rest.len() - chars.as_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, String)> {
        lex(source).into_iter().map(|t| (t.kind, t.text)).collect()
    }

    fn words(source: &str) -> Vec<String> {
        let words = lex(source).into_iter().filter(|t| t.kind == Kind::Word);
        words.map(|t| t.text).collect()
    }

    #[test]
    fn strings_hide_their_inside() {
        assert_eq!(
            words(r##"a "fn \" b" r#"fn " b"# b"fn" br"fn" c"fn" z"##),
            ["a", "z"]
        );
    }

    #[test]
    fn comments_hide_their_inside_and_nest() {
        assert_eq!(words("a // fn b\n/* fn /* b */ fn */ z"), ["a", "z"]);
    }

    #[test]
    fn a_character_is_not_a_lifetime() {
        let found = kinds(r"'a' 'b '\'' '\u{1F}' b'x' 'static");
        let kinds: Vec<Kind> = found.iter().map(|(kind, _)| *kind).collect();
        use Kind::{Lifetime, Literal};
        assert_eq!(
            kinds,
            [Literal, Lifetime, Literal, Literal, Literal, Lifetime]
        );
    }

    #[test]
    fn a_number_ends_before_a_range_and_before_a_method() {
        let text: Vec<String> = kinds("0..10 1.5e3 1.max 0xFF_u8")
            .into_iter()
            .map(|t| t.1)
            .collect();
        assert_eq!(
            text,
            ["0", ".", ".", "10", "1.5e3", "1", ".", "max", "0xFF_u8"]
        );
    }

    #[test]
    fn raw_identifiers_lose_their_prefix() {
        assert_eq!(words("r#type br r b"), ["type", "br", "r", "b"]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let tokens = lex("a\n\"x\ny\" b /*\n*/ c");
        let lines: Vec<usize> = tokens.iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 2, 3, 3, 4]);
    }

    #[test]
    fn what_never_closes_ends_with_the_file() {
        assert_eq!(kinds("\"abc").len(), 1);
        assert_eq!(kinds("/* abc").len(), 1);
        assert_eq!(kinds("r#\"abc").len(), 1);
        assert_eq!(kinds("'").len(), 1);
    }
}
