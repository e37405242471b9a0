//! Long functions and long files, by ratchet: what is listed may shrink, nothing may grow.
//!
//! The list is `xtask/tidy-ratchet.txt`, one line per accepted exception with its size. A new
//! exception is a line in a diff, so a reviewer sees it. An entry that no longer exceeds its
//! limit has to go, which `cargo xtask tidy --bless` does.

use std::collections::BTreeMap;

use super::tree::File;
use super::{Finding, RATCHET, Tree, syntax};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 900;

const HEADER: &str = "\
# Sizes above the limit, accepted for now: an entry may shrink, never grow.
# Rewritten by `cargo xtask tidy --bless`.
";

/// What is too long, with its number of lines: `file <path>` or `fn <path> <name>`.
type Sizes = BTreeMap<String, usize>;

/// Compares what is too long with what the list accepts.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let accepted = tree
        .get(RATCHET)
        .map(|file| parse(&file.text))
        .unwrap_or_default();
    let found = too_long(tree);
    let mut findings = Vec::new();
    for (what, lines) in &found {
        let message = match accepted.get(what) {
            Some(bound) if lines <= bound => continue,
            Some(bound) => format!("{what} grew from {bound} to {lines} lines"),
            None => format!("{what} has {lines} lines: look for the second thing hiding in it"),
        };
        findings.push(Finding::new(path_of(what), 0, message));
    }
    for what in accepted.keys().filter(|what| !found.contains_key(*what)) {
        let message = format!("{what} is no longer too long: run `cargo xtask tidy --bless`");
        findings.push(Finding::new(RATCHET, 0, message));
    }
    findings
}

/// The text of the list that accepts the tree as it is.
pub(super) fn ratchet(tree: &Tree) -> String {
    let sizes = too_long(tree);
    let lines = sizes
        .iter()
        .map(|(what, lines)| format!("{what} {lines}\n"));
    format!("{HEADER}{}", lines.collect::<String>())
}

fn parse(text: &str) -> Sizes {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (what, lines) = line.rsplit_once(' ')?;
            Some((what.to_string(), lines.parse().ok()?))
        })
        .collect()
}

fn path_of(what: &str) -> &str {
    what.split(' ').nth(1).unwrap_or(what)
}

fn too_long(tree: &Tree) -> Sizes {
    let mut sizes = Sizes::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        let limit = if file.is_test() {
            TEST_FILE_LINES
        } else {
            FILE_LINES
        };
        if lines > limit {
            sizes.insert(format!("file {}", file.path), lines);
        }
        if !file.is_test() {
            long_functions(file, &mut sizes);
        }
    }
    sizes
}

/// Functions of one name in one file share an entry: the longest counts.
fn long_functions(file: &File, sizes: &mut Sizes) {
    let tests = syntax::test_lines(&file.tokens);
    for function in syntax::functions(&file.tokens) {
        let is_test = tests.iter().any(|test| test.contains(&function.line));
        if function.lines > FUNCTION_LINES && !is_test {
            let entry = sizes
                .entry(format!("fn {} {}", file.path, function.name))
                .or_default();
            *entry = function.lines.max(*entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    fn findings(source: &str, list: &str) -> usize {
        check(&Tree::of(&[(PATH, source), (RATCHET, list)])).len()
    }

    #[test]
    fn the_limit_itself_is_accepted() {
        assert_eq!(findings(&function(70), ""), 0);
        assert_eq!(findings(&function(71), ""), 1);
    }

    #[test]
    fn a_listed_function_may_shrink_but_not_grow() {
        let list = "# comment\nfn crates/a/src/lib.rs long 80\n";
        assert_eq!(findings(&function(80), list), 0);
        assert_eq!(findings(&function(75), list), 0);
        assert_eq!(findings(&function(81), list), 1);
    }

    #[test]
    fn an_entry_that_is_no_longer_needed_has_to_go() {
        assert_eq!(
            findings(&function(60), "fn crates/a/src/lib.rs long 80\n"),
            1
        );
    }

    #[test]
    fn tests_may_have_long_functions() {
        assert_eq!(
            findings(
                &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(90)),
                ""
            ),
            0
        );
        assert_eq!(
            check(&Tree::of(&[("crates/a/tests/it.rs", &function(90))])).len(),
            0
        );
    }

    #[test]
    fn long_files_are_found_and_tests_may_be_longer() {
        let text = "//\n".repeat(601);
        assert_eq!(findings(&text, ""), 1);
        assert_eq!(
            check(&Tree::of(&[("crates/a/tests/it.rs", &text)])).len(),
            0
        );
    }

    #[test]
    fn blessing_accepts_what_is_there() {
        let source = function(90);
        let list = ratchet(&Tree::of(&[(PATH, &source)]));
        assert_eq!(findings(&source, &list), 0);
    }
}
