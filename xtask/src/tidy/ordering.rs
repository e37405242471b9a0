//! Checks that every atomic operation stronger than relaxed names its partner in an `ORDERING:`
//! comment, in the sources of every crate.

use super::lexer::{Kind, Token};
use super::{Finding, Tree, syntax};

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// The maximum number of lines between the end of the comment and the operation.
const REACH: usize = 12;

/// Finds orderings without a comment in non-test code.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = tree
        .rust_below("crates/")
        .filter(|file| file.path.contains("/src/") && !file.is_test());
    for file in sources {
        let comments = comment_ends(&file.tokens);
        let tests = syntax::test_lines(&file.tokens);
        let mut lines = strong_lines(&file.tokens);
        lines.dedup();
        for line in lines {
            let argued = comments
                .iter()
                .any(|end| (line.saturating_sub(REACH)..=line).contains(end));
            if !argued && !tests.iter().any(|test| test.contains(&line)) {
                let message = "state in an `// ORDERING:` comment above what this pairs with";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Returns the lines that name a strong ordering, without imports.
fn strong_lines(tokens: &[Token]) -> Vec<usize> {
    let mut importing = false;
    let mut lines = Vec::new();
    let mut code = tokens.iter().filter(|t| t.kind != Kind::Comment).peekable();
    while let Some(token) = code.next() {
        if token.is_word("use") {
            // `use<'a>` in a signature captures lifetimes and is not an import.
            importing = !code.peek().is_some_and(|t| t.is_mark('<'));
        } else if token.is_mark(';') {
            importing = false;
        }
        let strong = token.kind == Kind::Word && STRONG.contains(&token.text.as_str());
        if strong && !importing {
            lines.push(token.line);
        }
    }
    lines
}

/// Returns the last line of each `ORDERING:` comment; consecutive line comments are one comment.
fn comment_ends(tokens: &[Token]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut arguing = false;
    for token in tokens {
        if token.kind != Kind::Comment {
            arguing = false;
            continue;
        }
        let last = token.lines().last().map_or(token.line, |(line, _)| line);
        if token.text.contains("ORDERING:") {
            arguing = true;
            ends.push(last);
        } else if let Some(end) = ends.last_mut().filter(|_| arguing) {
            *end = last;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str) -> Vec<usize> {
        let tree = Tree::of(&[("crates/tidegate-core/src/lane.rs", source)]);
        check(&tree).iter().map(|f| f.line).collect()
    }

    #[test]
    fn sources_of_every_crate_are_looked_at_and_no_examples() {
        let load = "x.load(Acquire);\n";
        let tree = Tree::of(&[
            ("crates/tidegate-pool/src/pool/queue.rs", load),
            ("crates/tidegate-pool/examples/show.rs", load),
            ("crates/tidegate-pool/tests/it/main.rs", load),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/tidegate-pool/src/pool/queue.rs");
    }

    #[test]
    fn an_argued_ordering_is_fine() {
        let source = "// ORDERING: pairs with the load in `pop`,\n// which sees the value.\nx.store(1, Release);\n";
        assert_eq!(findings(source), []);
    }

    #[test]
    fn a_bare_ordering_is_found_once_per_line() {
        assert_eq!(
            findings("x.store(1, Relaxed);\nx.compare_exchange(0, 1, AcqRel, Acquire);\n"),
            [2]
        );
    }

    #[test]
    fn a_signature_that_names_lifetimes_is_no_import() {
        let source = "fn f() -> impl Sized + use<'a> { x.load(Acquire) }\n";
        assert_eq!(findings(source), [1]);
    }

    #[test]
    fn a_comment_far_above_does_not_count() {
        let source = format!("// ORDERING: x\n{}x.load(Acquire);\n", "y();\n".repeat(12));
        assert_eq!(findings(&source), [14]);
    }

    #[test]
    fn imports_tests_and_strings_do_not_count() {
        let source = "use std::sync::atomic::Ordering::{Acquire,\n Release};\nconst S: &str = \"SeqCst\";\n#[cfg(test)]\nmod tests {\n fn f() { x.load(Acquire) }\n}\n";
        assert_eq!(findings(source), []);
    }
}
