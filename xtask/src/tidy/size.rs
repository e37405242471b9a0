//! Finds long functions and long files.

use super::ratchet::Sizes;
use super::tree::File;
use super::{Tree, syntax};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 900;

/// Returns the files and functions that exceed their limits, in lines.
pub(super) fn too_long(tree: &Tree) -> Sizes {
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

/// Adds the long functions of a file. Functions of the same name in one file share an entry: the
/// longest counts.
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

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    fn found(path: &str, source: &str) -> usize {
        too_long(&Tree::of(&[(path, source)])).len()
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
