//! ARCHITECTURE.md names things that exist.
//!
//! In its code spans, CamelCase names and `snake_case()` calls must be defined somewhere below
//! `crates/`; every path that begins with `crates/` must exist.

use std::collections::HashSet;

use super::{Finding, Tree, markdown, syntax};

const PATH: &str = "ARCHITECTURE.md";

/// Names of the standard library that the text may use freely.
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
    findings
}

/// The names in a code span that claim a definition: `EventLoop::schedule()` has two.
fn names(span: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    let words = span
        .split(move |c: char| !is_part(c))
        .filter(|word| !word.is_empty());
    // A path or a file name claims no definition; `paths` looks after it.
    let claims = !span.contains(['/', ' ']) || span.contains(['<', '(']);
    words.filter(move |word| claims && (is_camel_case(word) || span.contains(&format!("{word}()"))))
}

/// An upper-case letter first and a lower-case one later; a type parameter `T` is not a name.
fn is_camel_case(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains(|c: char| c.is_ascii_lowercase())
}

/// The paths below `crates/` that a line mentions, patterns left out.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || "`()[],;:\"'".contains(c);
    line.split(is_end)
        .filter(|word| word.starts_with("crates/") && !word.contains(['*', '<', '{']))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| *word != "crates/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
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
    fn names_that_are_gone_are_found() {
        assert_eq!(findings("`Heap` and `Wheel::stop()`").len(), 2);
        assert_eq!(findings("`crates/b/src/lib.rs` and crates/c.").len(), 2);
    }

    #[test]
    fn pictures_claim_no_names() {
        assert_eq!(findings("```text\n`Heap`\n```\n"), Vec::<String>::new());
    }
}
