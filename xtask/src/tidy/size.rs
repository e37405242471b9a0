//! `cargo xtask size`: lines of code and of tests by crate, the bytes of the documents, comments in
//! invented phrases, public names. None of these grows unseen: each has a line with its limit in
//! `xtask/size.txt`, and a change that needs more raises that line.
//!
//! Lines of code have something besides white space and comments. Tests are the folders `tests`,
//! files such as `tests.rs` and `x_tests.rs`, items under `#[cfg(test)]`, and the testkit.

use std::collections::{BTreeMap, HashSet};

use super::lexer::Kind;
use super::tree::File;
use super::{Finding, Tree, names, syntax};

/// The file with the limits.
const LIMITS: &str = "xtask/size.txt";

/// Words that comments do not use, in lower case, and those that do not begin a sentence.
const WORDS: [&str; 5] = ["whom", "somebody", "those who", "who is", "who has"];
const BEGINNINGS: [&str; 2] = ["Answers", "Lets"];

/// Returns the table of all crates.
pub(super) fn table(tree: &Tree) -> String {
    let mut text = String::new();
    let mut all = Lines::default();
    for (name, lines) in rows(tree) {
        text += &format!("{name:28} {:7} {:7}\n", lines.code, lines.tests);
        if name.starts_with("crates/") {
            all = all.and(lines);
        }
    }
    text += &format!("{:28} {:7} {:7}\n", "crates", all.code, all.tests);
    for (name, figure) in figures(tree).into_iter().skip(4) {
        text += &format!("{name:28} {figure:7}\n");
    }
    text
}

/// Compares the figures with their limits.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let limits = tree.get(LIMITS).map_or("", |file| &file.text);
    let limit = |name: &str| {
        let mut lines = limits.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(known, _)| *known == name)?.1.parse().ok()
    };
    let over = figures(tree).into_iter().filter_map(|(name, figure)| {
        let message = match limit(&name) {
            None => format!("no limit: add the line `{name} {figure}`"),
            Some(limit) if figure > limit => {
                format!(
                    "{name}: {figure} is above {limit}; shrink it, or raise the line with a reason"
                )
            }
            Some::<usize>(_) => return None,
        };
        Some(Finding::new(LIMITS, 0, message))
    });
    over.collect()
}

/// Returns what has a limit.
fn figures(tree: &Tree) -> Vec<(String, usize)> {
    let rows = rows(tree);
    let below = |start: &str| {
        let rows = rows.iter().filter(|(name, _)| name.starts_with(start));
        rows.fold(Lines::default(), |sum, (_, lines)| sum.and(*lines))
    };
    let documents = tree.files().filter(|file| file.path.ends_with(".md"));
    let mut found = vec![
        ("crates code".to_owned(), below("crates/").code),
        ("crates tests".to_owned(), below("crates/").tests),
        ("bench code".to_owned(), below("bench").code),
        ("xtask code".to_owned(), below("xtask").code),
        (
            "markdown bytes".to_owned(),
            documents.map(|file| file.text.len()).sum(),
        ),
        (
            "dialect lines".to_owned(),
            tree.rust().map(in_dialect).sum(),
        ),
    ];
    let names = names::counts(tree).into_iter();
    found.extend(names.map(|(what, count)| (format!("names {what}"), count)));
    found
}

/// Lines of code, and of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
}

impl Lines {
    fn and(self, other: Self) -> Self {
        Self {
            code: self.code + other.code,
            tests: self.tests + other.tests,
        }
    }
}

/// Returns the lines of each crate and of each other folder.
fn rows(tree: &Tree) -> BTreeMap<String, Lines> {
    let mut rows = BTreeMap::new();
    for file in tree.rust() {
        let depth = if file.path.starts_with("crates/") {
            2
        } else {
            1
        };
        let parts: Vec<&str> = file.path.split('/').take(depth).collect();
        let name = parts.join("/");
        let mut lines = count(file);
        if is_test(file) || name.ends_with("testkit") {
            lines = Lines {
                code: 0,
                tests: lines.code + lines.tests,
            };
        }
        let row: &mut Lines = rows.entry(name).or_default();
        *row = row.and(lines);
    }
    rows
}

fn is_test(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(".rs");
    let named = name.rsplit('_').next().unwrap_or_default();
    file.path.split('/').any(|part| part == "tests") || ["test", "tests"].contains(&named)
}

fn count(file: &File) -> Lines {
    let tests = syntax::cfg_test_lines(&file.tokens);
    let tokens = file.tokens.iter().filter(|t| t.kind != Kind::Comment);
    let lines = tokens.flat_map(|token| token.lines());
    let lines = lines.filter(|(_, text)| !text.trim().is_empty());
    let lines: HashSet<usize> = lines.map(|(line, _)| line).collect();
    let is_test = |line: &&usize| tests.iter().any(|test| test.contains(line));
    let of_tests = lines.iter().filter(is_test).count();
    Lines {
        code: lines.len() - of_tests,
        tests: of_tests,
    }
}

/// Returns the number of comment lines with words that comments do not use.
fn in_dialect(file: &File) -> usize {
    let comments = file.tokens.iter().filter(|t| t.kind == Kind::Comment);
    let lines = comments.flat_map(|comment| comment.lines());
    lines.filter(|(_, text)| is_dialect(text)).count()
}

fn is_dialect(text: &str) -> bool {
    let has = |text: &str, word: &str| {
        let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        text.match_indices(word).any(|(at, _)| {
            let after = text[at + word.len()..].chars().next();
            !is_part(text[..at].chars().next_back()) && !is_part(after)
        })
    };
    let lower = text.to_lowercase();
    WORDS.iter().any(|word| has(&lower, word)) || BEGINNINGS.iter().any(|word| has(text, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_tests_are_counted_apart_and_comments_not_at_all() {
        let source = "//! A.\n\nfn a() {\n    \"x\n\ny\"; // b\n}\n\
            #[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", source),
            ("crates/a/tests/it.rs", "fn a() {}\n"),
            ("crates/a/src/b_tests.rs", "fn a() {}\n"),
            ("crates/testkit/src/lib.rs", "fn a() {}\n"),
        ]);
        let rows = rows(&tree);
        let lines = |code, tests| Lines { code, tests };
        assert_eq!(rows["crates/a"], lines(4, 6));
        assert_eq!(rows["crates/testkit"], lines(0, 1));
    }

    #[test]
    fn a_figure_above_its_line_is_found_and_so_is_one_without() {
        let source = "// Answers whom it may concern.\nfn a() {}\n";
        let limits = |dialect: usize| {
            let names =
                ["handlers", "hidden", "http", "visible"].map(|name| format!("names {name} 0\n"));
            let rest = ["crates tests", "bench code", "xtask code", "markdown bytes"];
            let rest = rest.map(|name| format!("{name} 0\n")).concat();
            format!(
                "{rest}crates code 1\ndialect lines {dialect}\n{}",
                names.concat()
            )
        };
        let found = |limits: &str| {
            check(&Tree::of(&[
                ("crates/a/src/lib.rs", source),
                (LIMITS, limits),
            ]))
            .len()
        };
        assert_eq!(found(&limits(1)), 0);
        assert_eq!(found(&limits(0)), 1);
        assert_eq!(found(""), 10);
    }

    #[test]
    fn words_count_whole() {
        assert!(is_dialect("Drops what whom, is") && is_dialect("Who is there"));
        assert!(!is_dialect("It answers the outlets."));
    }
}
