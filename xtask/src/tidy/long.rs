//! Finds long functions and long files.

use super::tree::File;
use super::{Finding, Tree, syntax};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 900;

/// Finds files and functions that exceed their limits, in lines.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        let limit = match file.is_test() {
            true => TEST_FILE_LINES,
            false => FILE_LINES,
        };
        if lines > limit {
            let message = format!("{lines} lines: look for the second thing hiding in it");
            findings.push(Finding::new(&file.path, 0, message));
        }
        if !file.is_test() {
            findings.extend(long_functions(file));
        }
    }
    findings
}

fn long_functions(file: &File) -> Vec<Finding> {
    let tests = syntax::test_lines(&file.tokens);
    let functions = syntax::functions(&file.tokens).into_iter();
    let long = functions.filter(|function| {
        let is_test = tests.iter().any(|test| test.contains(&function.line));
        function.lines > FUNCTION_LINES && !is_test
    });
    long.map(|function| {
        let message = format!(
            "`{}` has {} lines, more than {FUNCTION_LINES}",
            function.name, function.lines
        );
        Finding::new(&file.path, function.line, message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    fn found(path: &str, source: &str) -> usize {
        check(&Tree::of(&[(path, source)])).len()
    }

    #[test]
    fn tests_may_have_long_functions() {
        let in_file = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(90));
        assert_eq!(found("crates/a/src/lib.rs", &in_file), 0);
        assert_eq!(found("crates/a/tests/it.rs", &function(90)), 0);
        assert_eq!(found("crates/a/src/lib.rs", &function(90)), 1);
    }

    #[test]
    fn long_files_are_found_and_tests_may_be_longer() {
        let text = "//\n".repeat(601);
        assert_eq!(found("crates/a/src/lib.rs", &text), 1);
        assert_eq!(found("crates/a/tests/it.rs", &text), 0);
    }
}
