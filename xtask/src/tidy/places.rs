//! Finds calls that belong in one place only.
//!
//! * Panics of user code are caught by `tidegate_core::internal::contain`: a bare `catch_unwind` returns
//!   the payload of the panic, whose `Drop` may panic in turn and end the thread that drops it.
//! * Tests wait with the testkit, whose waits fail with a message when they time out. A test that yields
//!   or spins in its own loop hangs if its condition never becomes true. Models are exempt: they need
//!   the yields of the scheduler that runs them.

use super::tree::File;
use super::{Finding, Tree, syntax};

/// The crate that provides the waits, and whose panics are assertions.
const KIT: &str = "crates/tidegate-testkit/";
/// The module that may call `catch_unwind`.
const CONTAIN: &str = "crates/tidegate-core/src/contain.rs";

/// Finds `catch_unwind` outside of tests, and yields and spins in tests, in the crates.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.rust_below("crates/");
    for file in files.filter(|file| !file.path.starts_with(KIT) && !is_model(file)) {
        let tests = syntax::test_lines(&file.tokens);
        let whole = file.is_test() || file.path.ends_with("_tests.rs");
        for token in &file.tokens {
            let is_test = whole || tests.iter().any(|test| test.contains(&token.line));
            let waits = token.is_word("yield_now") || token.is_word("spin_loop");
            let message = match is_test {
                true if waits => {
                    "wait with `until`, `until_some` or `block_on` of the testkit, which give up with \
                     a sentence; `yield_times` and `spin_times` only pause"
                }
                false if token.is_word("catch_unwind") && file.path != CONTAIN => {
                    "catch panics with `tidegate_core::internal::contain`: it also contains the drop \
                     of their payload"
                }
                _ => continue,
            };
            findings.push(Finding::new(&file.path, token.line, message));
        }
    }
    findings
}

/// Returns `true` if loom or shuttle runs the file, judged by its path: `tests/models/`,
/// `tests/loom*.rs` or `tests/shuttle*.rs`.
fn is_model(file: &File) -> bool {
    let Some((_, below)) = file.path.split_once("/tests/") else {
        return false;
    };
    let names = ["models/", "loom", "shuttle"];
    names.iter().any(|name| below.starts_with(name))
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
        assert_eq!(findings("crates/tidegate-core/src/contain.rs", source), []);
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

    #[test]
    fn a_test_that_yields_or_spins_is_found() {
        let source = "fn f() {\n while !x() {\n  std::thread::yield_now();\n }\n spin_loop();\n}\n";
        assert_eq!(findings("crates/a/tests/it/main.rs", source), [3, 5]);
        assert_eq!(findings("crates/a/src/lane/tests.rs", source), [3, 5]);
        assert_eq!(findings("crates/a/src/lane_tests.rs", source), [3, 5]);
    }

    #[test]
    fn a_test_module_inside_a_file_is_a_test() {
        let source =
            "fn f() { spin_loop(); }\n#[cfg(test)]\nmod tests {\n fn g() { yield_now(); }\n}\n";
        assert_eq!(findings("crates/a/src/lane.rs", source), [4]);
    }

    #[test]
    fn models_the_testkit_and_other_programs_are_free() {
        let source = "fn f() { yield_now(); }\n";
        for path in [
            "crates/a/tests/loom.rs",
            "crates/a/tests/loom_pool.rs",
            "crates/a/tests/shuttle.rs",
            "crates/a/tests/models/sleep.rs",
            "crates/tidegate-testkit/src/tests.rs",
            "bench/src/main.rs",
            "crates/a/src/lane.rs",
        ] {
            assert_eq!(findings(path, source), [], "{path}");
        }
    }

    #[test]
    fn comments_and_strings_are_no_waits() {
        let source = "// yield_now\nconst S: &str = \"spin_loop\";\n";
        assert_eq!(findings("crates/a/tests/it/main.rs", source), []);
    }
}
