//! Checks that the names in ARCHITECTURE.md exist.
//!
//! In its code spans, CamelCase names and `snake_case()` calls must be defined somewhere below
//! `crates/`; every path that begins with `crates/`, `bench/` or `xtask/` must exist. The table "To
//! change something, start here" names a file for each of at least twenty changes.

use std::collections::HashSet;

use super::{Finding, Tree, markdown, syntax};

const PATH: &str = "ARCHITECTURE.md";
/// The heading of the table that names the starting point of each change.
const START_HERE: &str = "## To change something, start here";
/// The minimum number of rows of that table.
const FEWEST_CHANGES: usize = 20;

/// Names of the standard library, which the text may use.
const STD: [&str; 19] = [
    "Arc", "Box", "Clone", "Copy", "Drop", "Duration", "Err", "Fn", "FnMut", "FnOnce", "Future",
    "Instant", "Mutex", "Ok", "Option", "Result", "Send", "Sync", "Vec",
];

/// Checks every code span and every path.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.get(PATH) else {
        return vec![Finding::new(PATH, 0, "missing")];
    };
    let mut defined: HashSet<String> = STD.into_iter().map(str::to_string).collect();
    for source in tree.rust_below("crates/") {
        defined.extend(syntax::definitions(&source.tokens));
    }
    let mut findings = Vec::new();
    for (line, text) in markdown::prose(&file.text) {
        for name in markdown::code_spans(text).flat_map(names) {
            if !defined.contains(name) {
                let message = format!("`{name}` is not defined below crates/");
                findings.push(Finding::new(PATH, line, message));
            }
        }
    }
    for (line, text) in file.lines() {
        for path in paths(text).filter(|path| !tree.has(path)) {
            findings.push(Finding::new(PATH, line, format!("`{path}` does not exist")));
        }
    }
    findings.extend(check_start_here(&file.text));
    findings
}

/// Checks that the table of changes exists, is long enough, and names a file in each row.
fn check_start_here(text: &str) -> Vec<Finding> {
    let section = text.lines().enumerate();
    let section = section.skip_while(|(_, line)| *line != START_HERE).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    // The first two rows are the head of the table.
    let rows: Vec<_> = section
        .filter(|(_, line)| line.starts_with('|'))
        .skip(2)
        .collect();
    let mut findings = Vec::new();
    if rows.len() < FEWEST_CHANGES {
        let message = format!(
            "\"{START_HERE}\" has {} rows; name the file for at least {FEWEST_CHANGES} changes",
            rows.len()
        );
        findings.push(Finding::new(PATH, 0, message));
    }
    for (index, row) in rows {
        if !paths(row).any(|path| path.ends_with(".rs")) {
            findings.push(Finding::new(PATH, index + 1, "name the file to start at"));
        }
    }
    findings
}

/// Returns the names in a code span that must be defined: `EventLoop::schedule()` has two.
fn names(span: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    let words = span
        .split(move |c: char| !is_part(c))
        .filter(|word| !word.is_empty());
    // A path or a file name needs no definition; `paths` checks it.
    let claims = !span.contains(['/', ' ']) || span.contains(['<', '(']);
    words.filter(move |word| claims && (is_camel_case(word) || span.contains(&format!("{word}()"))))
}

/// Returns `true` if a word starts with an upper-case letter and has a lower-case one; a type
/// parameter `T` is not a name.
fn is_camel_case(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains(|c: char| c.is_ascii_lowercase())
}

/// Returns the paths below `crates/`, `bench/` and `xtask/` in a line, without patterns.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    const ROOTS: [&str; 5] = ["bench/", "crates/", "examples/", "fuzz/", "xtask/"];
    let is_end = |c: char| c.is_whitespace() || "`()[],;:\"'".contains(c);
    line.split(is_end)
        .filter(|word| ROOTS.iter().any(|root| word.starts_with(root)))
        .filter(|word| !word.contains(['*', '<', '{']))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !ROOTS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for a text with a valid table of twenty changes.
    fn findings(text: &str) -> Vec<String> {
        of(&format!("{text}\n{START_HERE}\n{}", table(20)))
    }

    fn table(rows: usize) -> String {
        let row = "| a thing | `crates/a/src/lib.rs` |\n";
        format!("| change | start |\n|---|---|\n{}", row.repeat(rows))
    }

    fn of(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", text),
            (
                "crates/a/src/lib.rs",
                "pub struct Wheel<T>(T); impl Wheel { fn turn(&self) {} }",
            ),
        ]);
        check(&tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn existing_names_and_paths_are_fine() {
        let text =
            "`Wheel`, `Wheel<T>`, `Wheel::turn()`, `Option<Wheel>`, `a::Wheel`, Other, `any words`,
            `membarrier`, crates/a, `crates/a/src/lib.rs`, crates/*/Cargo.toml, `README.md`.";
        assert_eq!(findings(text), Vec::<String>::new());
    }

    #[test]
    fn names_that_no_longer_exist_are_found() {
        assert_eq!(findings("`Heap` and `Wheel::stop()`").len(), 2);
        assert_eq!(findings("`crates/b/src/lib.rs` and crates/c.").len(), 2);
    }

    #[test]
    fn the_table_of_changes_names_a_file_for_each_of_twenty() {
        assert_eq!(of("no table").len(), 1);
        assert_eq!(of(&format!("{START_HERE}\n{}", table(19))).len(), 1);
        let vague = format!("{START_HERE}\n{}| another | the loop |\n", table(20));
        assert_eq!(of(&vague), ["name the file to start at"]);
    }

    #[test]
    fn pictures_claim_no_names() {
        assert_eq!(findings("```text\n`Heap`\n```\n"), Vec::<String>::new());
    }
}
