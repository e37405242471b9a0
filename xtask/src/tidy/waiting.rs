//! Checks that tests wait with the testkit, whose waits fail with a message when they time out.
//!
//! A test that yields or spins in its own loop hangs if its condition never becomes true. Models
//! are exempt: they need the yields of the scheduler that runs them.

use super::tree::File;
use super::{Finding, Tree, syntax};

/// The crate that provides the waits.
const KIT: &str = "crates/tidegate-testkit/";
const WORDS: [&str; 2] = ["yield_now", "spin_loop"];

/// Finds yields and spins in the tests of the crates.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree
        .rust_below("crates/")
        .filter(|file| !file.path.starts_with(KIT) && !is_model(file));
    for file in files {
        let tests = syntax::test_lines(&file.tokens);
        let is_test = |line| is_test_file(file) || tests.iter().any(|test| test.contains(&line));
        for token in &file.tokens {
            if WORDS.iter().any(|word| token.is_word(word)) && is_test(token.line) {
                let message = "wait with `until`, `until_some` or `block_on` of the testkit, which \
                               give up with a sentence; `yield_times` and `spin_times` only pause";
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    findings
}

/// Returns `true` if the whole file is test code: `tests.rs`, `x_tests.rs` or below `tests/`.
fn is_test_file(file: &File) -> bool {
    file.is_test() || file.path.ends_with("_tests.rs")
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
