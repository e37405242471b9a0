//! Patterns of paths, and the normal form of the path of a request.
//!
//! A pattern has segments. A segment is a text, or `{name}`, which stands for any one segment that
//! is not empty. A `/*` at the end stands for any number of further segments, also none:
//! `/catalog/*` contains `/catalog`, `/catalog/` and `/catalog/a/b`.
//!
//! Routes see paths in normal form only, so that `/%61dmin` and `/x/../admin` are `/admin` for the
//! routes and for the upstream alike.

use std::borrow::Cow;
use std::fmt;

/// The path of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// `true` if further segments may follow.
    open: bool,
}

/// A part of a path between two slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// This text.
    Text(String),
    /// Any text, by its name.
    Any(String),
}

impl PathPattern {
    /// Returns the pattern that contains all paths.
    pub fn all() -> Self {
        Self {
            segments: Vec::new(),
            open: true,
        }
    }

    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix('/').ok_or("it does not begin with `/`")?;
        if text.contains(['?', '#']) {
            return Err("it has a query or a fragment, which routes do not see".to_owned());
        }
        let (rest, open) = match rest.strip_suffix('*') {
            Some("") => return Ok(Self::all()),
            Some(rest) => match rest.strip_suffix('/') {
                Some(rest) => (rest, true),
                None => return Err("a `*` stands only after the last `/`".to_owned()),
            },
            None => (rest, false),
        };
        let segments: Result<Vec<_>, String> = rest.split('/').map(Segment::parse).collect();
        let segments = segments?;
        let mut names: Vec<&str> = segments.iter().filter_map(Segment::name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("the name `{}` occurs twice", pair[0])),
            None => Ok(Self { segments, open }),
        }
    }

    /// Returns the segments.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns `true` if further segments may follow.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the form of this pattern after normalisation, if it differs: such a pattern matches
    /// no request.
    pub fn normal_form(&self) -> Option<String> {
        let written = self.to_string();
        match normal(&written) {
            Some(Cow::Owned(normal)) if normal != written => Some(normal),
            Some(_) => None,
            None => Some("/".to_owned()),
        }
    }

    /// Returns what `{name}` stands for in a path that the pattern contains; `{rest}` is `/*`.
    pub fn capture<'p>(&self, name: &str, path: &'p str) -> Option<&'p str> {
        let mut rest = path.strip_prefix('/').unwrap_or(path);
        for segment in &self.segments {
            let (text, after) = rest.split_once('/').unwrap_or((rest, ""));
            match segment {
                Segment::Any(own) if own == name && name != "rest" => return Some(text),
                _ => rest = after,
            }
        }
        (name == "rest").then_some(if self.open { rest } else { "" })
    }

    /// Returns the path before the first `{name}` or `/*`, such as `/catalog`.
    pub fn fixed_part(&self) -> String {
        let texts = self.segments.iter().map_while(|segment| match segment {
            Segment::Text(text) => Some(text),
            Segment::Any(_) => None,
        });
        texts.map(|text| format!("/{text}")).collect()
    }

    /// Returns the length of what stands before the name of a file in a path that the pattern
    /// contains. The name is what `/*` stands for; without it, what follows the fixed part. In a path
    /// without any variable part, it is the last segment.
    pub(crate) fn before_file(&self, path: &str) -> usize {
        if !self.open {
            let is_exact = self.segments.iter().all(|own| own.name().is_none());
            return match path.rfind('/') {
                Some(last) if is_exact => last,
                _ => self.fixed_part().len(),
            };
        }
        let slashes = path.match_indices('/').map(|(at, _)| at);
        let mut ends = slashes.skip(self.segments.len());
        ends.next().unwrap_or(path.len())
    }

    /// Returns `true` if the pattern contains a path in normal form.
    pub fn contains(&self, path: &str) -> bool {
        let mut rest = segments(path);
        for segment in &self.segments {
            let matches = match (segment, rest.next()) {
                (Segment::Text(text), Some(found)) => text == found,
                (Segment::Any(_), Some(found)) => !found.is_empty(),
                (_, None) => false,
            };
            if !matches {
                return false;
            }
        }
        self.open || rest.next().is_none()
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        match name {
            Some(name) if !name.is_empty() && name.chars().all(is_part) => {
                Ok(Self::Any(name.to_owned()))
            }
            Some(name) => Err(format!("`{{{name}}}` has no valid name")),
            None if text.contains(['{', '}', '*']) => {
                Err(format!("`{text}` is neither a text nor one `{{name}}`"))
            }
            None if !text.chars().all(|c| c.is_ascii_graphic()) => {
                let text = text.escape_debug();
                Err(format!(
                    "`{text}` has a character that a URL has only with `%`"
                ))
            }
            None => Ok(Self::Text(text.to_owned())),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Any(name) => Some(name),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => write!(f, "/{text}")?,
                Segment::Any(name) => write!(f, "/{{{name}}}")?,
            }
        }
        f.write_str(if self.open { "/*" } else { "" })
    }
}

/// Returns the segments of a path: `/a/b/` has `a`, `b` and an empty one, `/` has an empty one.
fn segments(path: &str) -> std::str::Split<'_, char> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Returns a path in normal form: no `.` and `..` segments, percent signs only where they are
/// needed, their digits in capital letters. A path that is in normal form is borrowed.
///
/// Returns `None` if the path leaves its root, does not begin with `/`, or has a percent sign
/// without two hexadecimal digits. Such a request gets status 400.
pub fn normal(path: &str) -> Option<Cow<'_, str>> {
    if !path.starts_with('/') {
        return None;
    }
    if !needs_look(path.as_bytes()) {
        return Some(Cow::Borrowed(path));
    }
    let decoded = decoded(path)?;
    if !decoded.as_bytes().windows(2).any(|two| two == b"/.") {
        return Some(decoded);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut all = segments(&decoded).peekable();
    while let Some(segment) = all.next() {
        let is_last = all.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop()?;
            }
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    Some(Cow::Owned(format!("/{}", kept.join("/"))))
}

/// Returns the path of a request in normal form, as [`normal`] does. Nearly all of them are in normal
/// form, and then nothing more has to be known about their bytes.
pub fn normal_bytes(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    if path.starts_with(b"/") && !needs_look(path) {
        return Some(Cow::Borrowed(path));
    }
    Some(match normal(std::str::from_utf8(path).ok()?)? {
        Cow::Borrowed(normal) => Cow::Borrowed(normal.as_bytes()),
        Cow::Owned(normal) => Cow::Owned(normal.into_bytes()),
    })
}

/// Returns `true` if a path has a percent sign or a dot. Looks at eight bytes at once.
fn needs_look(path: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let has = |word: u64, byte: u8| {
        // A byte that is equal becomes zero, and only a zero lends its highest bit.
        let other = word ^ (ONES * u64::from(byte));
        other.wrapping_sub(ONES) & !other & TOPS != 0
    };
    let (words, rest) = path.as_chunks();
    let in_words = words.iter().any(|word| {
        let word = u64::from_le_bytes(*word);
        has(word, b'%') | has(word, b'.')
    });
    in_words || rest.iter().any(|byte| matches!(byte, b'%' | b'.'))
}

/// Decodes the characters that need no percent sign, and writes the others in capital letters.
fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut text = String::with_capacity(path.len());
    let mut parts = path.split('%');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.get(..2)?;
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        let byte = is_hex
            .then(|| u8::from_str_radix(digits, 16).ok())
            .flatten()?;
        match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => text.push(char::from(b)),
            b => text.push_str(&format!("%{b:02X}")),
        }
        text.push_str(&part[2..]);
    }
    Some(match text == path {
        true => Cow::Borrowed(path),
        false => Cow::Owned(text),
    })
}

#[cfg(test)]
mod tests {
    //! One row for each form.

    use super::{PathPattern, needs_look, normal, normal_bytes};

    #[test]
    fn a_percent_sign_and_a_dot_are_found_at_each_place() {
        for length in 1..20 {
            for byte in 1..=255_u8 {
                let mut path = vec![b'/'; length];
                assert!(!needs_look(&path));
                for at in 0..length {
                    path[at] = byte;
                    assert_eq!(needs_look(&path), b"%.".contains(&byte), "{path:?}");
                    path[at] = b'a';
                }
            }
        }
    }

    #[test]
    fn a_pattern_contains_exactly_its_paths() {
        let rows = [
            ("/cart", "/cart", true),
            ("/cart", "/cart/", false),
            ("/cart", "/carts", false),
            ("/catalog/*", "/catalog", true),
            ("/catalog/*", "/catalog/", true),
            ("/catalog/*", "/catalog/a/b", true),
            ("/catalog/*", "/catalogue", false),
            ("/*", "/", true),
            ("/*", "/a", true),
            ("/", "/", true),
            ("/", "/a", false),
            ("/users/{id}", "/users/7", true),
            ("/users/{id}", "/users/", false),
            ("/users/{id}", "/users/7/orders", false),
            ("/users/{id}/*", "/users/7/orders", true),
        ];
        for (pattern, path, expected) in rows {
            let pattern = PathPattern::parse(pattern).unwrap();
            assert_eq!(pattern.contains(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_file_is_what_the_star_stands_for() {
        let rows = [
            ("/*", "/a/b", "/a/b"),
            ("/*", "/", "/"),
            ("/f/*", "/f", ""),
            ("/f/*", "/f/", "/"),
            ("/f/*", "/f/a/b", "/a/b"),
            ("/x/{d}/*", "/x/a/b/c", "/b/c"),
            ("/x/{d}/*", "/x/a", ""),
            ("/x/{d}/{f}", "/x/a/b", "/a/b"),
            ("/x/{d}/", "/x/a/", "/a/"),
            ("/x/{d}/b", "/x/a/b", "/a/b"),
            ("/", "/", "/"),
            ("/x/", "/x/", "/"),
            ("/a.txt", "/a.txt", "/a.txt"),
            ("/x/a.txt", "/x/a.txt", "/a.txt"),
        ];
        for (pattern, path, file) in rows {
            let pattern = PathPattern::parse(pattern).unwrap();
            assert_eq!(&path[pattern.before_file(path)..], file, "{pattern} {path}");
        }
    }

    #[test]
    fn what_no_path_can_be_is_refused() {
        let rows = [
            "", "cart", "/a*", "/a*b/c", "/{}", "/{a b}", "/x{a}", "/{a}/{a}", "/a?b", "/a b", "/ä",
        ];
        for text in rows {
            assert!(PathPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_has_one_normal_form() {
        let rows = [
            ("/a/b", Some("/a/b")),
            ("/%61dmin", Some("/admin")),
            ("/a%2fb", Some("/a%2Fb")),
            ("/x/../admin", Some("/admin")),
            ("/x/%2e%2e/admin", Some("/admin")),
            ("/a/./b/.", Some("/a/b/")),
            ("/a/..", Some("/")),
            ("/.hidden", Some("/.hidden")),
            ("/a//b", Some("/a//b")),
            ("/..", None),
            ("/a/../../b", None),
            ("/%", None),
            ("/%+1", None),
            ("a", None),
        ];
        for (path, expected) in rows {
            assert_eq!(normal(path).as_deref(), expected, "{path}");
            let expected = expected.map(str::as_bytes);
            assert_eq!(normal_bytes(path.as_bytes()).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_pattern_that_no_request_matches_has_another_normal_form() {
        let form = |text: &str| PathPattern::parse(text).unwrap().normal_form();
        assert_eq!(form("/a/../b").as_deref(), Some("/b"));
        assert_eq!(form("/%61/*").as_deref(), Some("/a/*"));
        assert_eq!(form("/../b").as_deref(), Some("/"));
        assert_eq!(form("/a/{x}/*"), None);
    }
}
