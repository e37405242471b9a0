//! Checks that panics of user code are caught in one place only:
//! `tidegate_core::internal::contain`.
//!
//! A bare `catch_unwind` returns the payload of the panic, whose `Drop` may panic in turn and end
//! the thread that drops it.

use super::{Finding, Tree, syntax};

/// The module that may call `catch_unwind`.
const HOME: &str = "crates/tidegate-core/src/contain.rs";
/// The test-support crate, where a panic is an assertion.
const TESTS: &str = "crates/tidegate-testkit/";

/// Finds `catch_unwind` in library code, tests excluded.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree
        .rust_below("crates/")
        .filter(|file| file.path != HOME && !file.path.starts_with(TESTS) && !file.is_test());
    for file in files {
        let tests = syntax::test_lines(&file.tokens);
        let caught = file.tokens.iter().filter(|t| t.is_word("catch_unwind"));
        for token in caught {
            if !tests.iter().any(|test| test.contains(&token.line)) {
                let message = "catch panics with `tidegate_core::internal::contain`: it also contains the \
                               drop of their payload";
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, source: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, source)]);
        check(&tree).iter().map(|f| f.line).collect()
    }

    #[test]
    fn only_the_module_of_containment_catches_panics() {
        let source = "use std::panic;\nfn f() { panic::catch_unwind(g); }\n";
        assert_eq!(findings("crates/tidegate-loop/src/core.rs", source), [2]);
        assert_eq!(findings("crates/tidegate-core/src/cancel.rs", source), [2]);
        assert_eq!(findings(HOME, source), []);
    }

    #[test]
    fn tests_comments_and_other_programs_are_free() {
        let source =
            "// catch_unwind\n#[cfg(test)]\nmod tests {\n fn f() { catch_unwind(g); }\n}\n";
        assert_eq!(findings("crates/tidegate-loop/src/core.rs", source), []);
        let source = "fn f() { catch_unwind(g); }\n";
        assert_eq!(
            findings("crates/tidegate-loop/src/core/tests.rs", source),
            []
        );
        assert_eq!(
            findings("crates/tidegate-loop/tests/it/main.rs", source),
            []
        );
        assert_eq!(findings("crates/tidegate-testkit/src/model.rs", source), []);
        assert_eq!(findings("bench/src/main.rs", source), []);
    }
}
