//! The path of a request as a path below the directory.
//!
//! What is left has only ordinary names. Everything that a file system might treat in a special way
//! is refused here, before the operating system sees it.

use crate::percent;

/// The only hidden name that is served: certificates are checked with it (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A file, or a directory to which the client is redirected.
    Entry(String),
    /// A directory, by a path with a slash at its end: its index file. The path is empty for the
    /// root.
    Directory(String),
}

/// Returns the path below the directory that `path`, as it was sent, stands for. `None` if there
/// cannot be a file of that name.
///
/// Refused are: malformed encodings, text that is not UTF-8, control characters, encoded slashes,
/// backslashes, empty segments, `.` and `..`, and hidden names. On Windows also
/// colons and names that end with a dot or a space.
pub(super) fn below_root(path: &str, prefix: &str) -> Option<Wanted> {
    path.strip_prefix(prefix)?;
    below(path, prefix.len())
}

/// Does the same for what follows the first `before` bytes of a path.
pub(super) fn below(path: &str, before: usize) -> Option<Wanted> {
    let below = path.get(before..)?;
    if below.is_empty() && path.ends_with('/') {
        return Some(Wanted::Directory(String::new()));
    }
    if below.is_empty() && before > 0 {
        // The prefix without a slash: the root is a directory like any other.
        return Some(Wanted::Entry(String::new()));
    }
    let below = below.strip_prefix('/')?;
    let mut names = Vec::new();
    let mut segments = below.split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment.is_empty() && segments.peek().is_none() {
            return Some(Wanted::Directory(names.join("/")));
        }
        let name = percent::decode(segment)?;
        let is_first = names.is_empty();
        if !is_ordinary(&name) || !is_visible(&name, is_first) {
            return None;
        }
        names.push(name);
    }
    Some(Wanted::Entry(names.join("/")))
}

fn is_ordinary(name: &str) -> bool {
    let special = |byte: u8| byte < 0x20 || byte == 0x7f || byte == b'/' || byte == b'\\';
    let is_special = name.bytes().any(special) || matches!(name, "" | "." | "..");
    let is_odd = cfg!(windows) && (name.contains(':') || name.ends_with(['.', ' ']));
    !(is_special || is_odd)
}

fn is_visible(name: &str, is_first: bool) -> bool {
    !name.starts_with('.') || is_first && name == WELL_KNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Option<Wanted> {
        Some(Wanted::Entry(path.to_owned()))
    }

    fn directory(path: &str) -> Option<Wanted> {
        Some(Wanted::Directory(path.to_owned()))
    }

    #[test]
    fn ordinary_paths_are_decoded() {
        let cases = [
            ("/", directory("")),
            ("/a.txt", entry("a.txt")),
            ("/a/b/", directory("a/b")),
            ("/a%20b/%C3%A9", entry("a b/é")),
            ("/a..b/...", None),
            ("/a..b/c", entry("a..b/c")),
            ("/.well-known/acme", entry(".well-known/acme")),
            ("/100%25", entry("100%")),
            ("/%252e%252e/a", entry("%2e%2e/a")),
        ];
        for (path, expected) in cases {
            assert_eq!(below_root(path, ""), expected, "{path}");
        }
    }

    #[test]
    fn hostile_paths_stand_for_no_file() {
        let hostile = [
            "",
            "*",
            "a",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/../a",
            "/a/../b",
            "/a/..",
            "/./a",
            "/%2e%2e/a",
            "/%2e%2e%2fa",
            "/.%2e/a",
            "/%2E./a",
            "/a%2fb",
            "/a%2Fb",
            "/..%2f..%2fa",
            "/a%5cb",
            "/..%5c..%5ca",
            "/a\\b",
            "/%00",
            "/a%00.txt",
            "/a%0a",
            "/a%0d%0ab",
            "/%7f",
            "/%ff",
            "/%c0%ae%c0%ae/a",
            "/%c0%af",
            "/%zz",
            "/%",
            "/%2",
            "/.git",
            "/.git/config",
            "/a/.well-known/b",
            "/.htaccess",
            "/a/.b/c",
            "/%2egit/config",
        ];
        for path in hostile {
            assert_eq!(below_root(path, ""), None, "{path}");
        }
    }

    #[test]
    fn a_path_that_ends_with_a_slash_gets_no_other_one() {
        for path in ["/", "/x/"] {
            assert_eq!(below(path, path.len()), directory(""), "{path}");
        }
        assert_eq!(below("/x", 2), entry(""));
    }

    #[test]
    fn a_prefix_is_removed_and_must_be_there() {
        let cases = [
            ("/static", entry("")),
            ("/static/", directory("")),
            ("/static/a", entry("a")),
            ("/statics", None),
            ("/other", None),
            ("/static/../a", None),
            ("/%73tatic/a", None),
        ];
        for (path, expected) in cases {
            assert_eq!(below_root(path, "/static"), expected, "{path}");
        }
    }
}
