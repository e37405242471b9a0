//! Limits sizes by a ratchet: a listed exception may shrink, and nothing may grow.
//!
//! The counts of public names are always listed, and may shrink like the exceptions. `--bless`
//! lowers them but does not raise them: a line that grows is written by hand, with a reason.
//!
//! The list is `xtask/tidy-ratchet.txt`, one line per accepted exception with its size. A new
//! exception is a line in a diff, so a reviewer sees it. An entry that no longer exceeds its limit
//! has to be removed, which `cargo xtask tidy --bless` does.

use std::collections::BTreeMap;

use super::{Finding, RATCHET, Tree, circles, names, size};

const HEADER: &str = "\
# Sizes above the limit and counts of names, accepted for now: an entry may shrink, never grow.
# Rewritten by `cargo xtask tidy --bless`.
";

/// The items that exceed their limits, with their sizes: `file <path>`, `fn <path> <name>` or
/// `circle <path>`; and the counts of names, `names visible` for example.
pub(super) type Sizes = BTreeMap<String, usize>;

/// Compares the items that exceed their limits with the list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let accepted = accepted(tree);
    let found = measure(tree);
    let mut findings = Vec::new();
    for (what, size) in &found {
        let message = match accepted.get(what) {
            Some(bound) if size <= bound => continue,
            Some(bound) if is_count(what) => {
                format!(
                    "{what} grew from {bound} to {size}: keep new names private, or raise the ratchet with a reason"
                )
            }
            Some(bound) => format!("{what} grew from {bound} to {size}"),
            None => format!("{what} {size}: {}", advice(tree, what)),
        };
        findings.push(Finding::new(path_of(what), 0, message));
    }
    for what in accepted.keys().filter(|what| !found.contains_key(*what)) {
        let message = format!("{what} is within its limit: run `cargo xtask tidy --bless`");
        findings.push(Finding::new(RATCHET, 0, message));
    }
    findings
}

/// Returns the text of the list that accepts the current tree, except for names that came on top.
pub(super) fn list(tree: &Tree) -> String {
    let accepted = accepted(tree);
    let sizes = measure(tree);
    let lines = sizes.iter().map(|(what, size)| {
        let bound = accepted.get(what).filter(|_| is_count(what));
        let size = bound.map_or(*size, |bound| *size.min(bound));
        format!("{what} {size}\n")
    });
    format!("{HEADER}{}", lines.collect::<String>())
}

fn accepted(tree: &Tree) -> Sizes {
    let list = tree.get(RATCHET).map(|file| parse(&file.text));
    list.unwrap_or_default()
}

/// Returns `true` for a count of names, which has no limit of its own.
fn is_count(what: &str) -> bool {
    what.starts_with("names")
}

fn measure(tree: &Tree) -> Sizes {
    let mut sizes = size::too_long(tree);
    sizes.extend(circles::too_large(tree));
    sizes.extend(names::counts(tree));
    sizes
}

fn advice(tree: &Tree, what: &str) -> String {
    if what.starts_with("circle") {
        return circles::explain(tree, path_of(what));
    }
    if is_count(what) {
        return "the count is not listed: run `cargo xtask tidy --bless`".to_string();
    }
    "lines are too many: look for the second thing hiding in it".to_string()
}

fn parse(text: &str) -> Sizes {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (what, size) = line.rsplit_once(' ')?;
            Some((what.to_string(), size.parse().ok()?))
        })
        .collect()
}

fn path_of(what: &str) -> &str {
    if is_count(what) {
        return names::FACADE;
    }
    what.split(' ').nth(1).unwrap_or(what)
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
    fn counts_of_names_may_shrink_but_not_grow() {
        let findings = |list: &str| {
            let facade = (names::FACADE, "pub struct A; pub struct B;");
            check(&Tree::of(&[facade, (RATCHET, list)])).len()
        };
        assert_eq!(findings("names visible 2\n"), 0);
        assert_eq!(findings("names visible 3\n"), 0);
        assert_eq!(findings("names visible 1\n"), 1);
        assert_eq!(findings(""), 1);
    }

    #[test]
    fn blessing_lowers_counts_of_names_and_does_not_raise_them() {
        let blessed = |before: &str| {
            let facade = (names::FACADE, "pub struct A; pub struct B;");
            list(&Tree::of(&[facade, (RATCHET, before)]))
        };
        assert!(blessed("").ends_with("names visible 2\n"));
        assert!(blessed("names visible 3\n").ends_with("names visible 2\n"));
        assert!(blessed("names visible 1\n").ends_with("names visible 1\n"));
    }

    #[test]
    fn blessing_accepts_what_is_there() {
        let source = function(90);
        let list = list(&Tree::of(&[(PATH, &source)]));
        assert_eq!(findings(&source, &list), 0);
    }
}
