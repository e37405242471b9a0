//! Reads the test command from the README, so that CI runs what the README promises.

use std::path::Path;

/// The line in the README above the fenced block that holds the command.
const MARKER: &str = "<!-- test-command -->";

/// Arguments that would exclude the doc tests.
const NARROWING: [&str; 5] = ["--all-targets", "--lib", "--bins", "--tests", "--no-run"];

/// Reads the test command of the README under `root`, split into words.
///
/// # Errors
///
/// Returns an error if the README has no marked command, or if its command would not run every kind
/// of test.
pub fn test_command(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("README.md");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read README.md: {e}"))?;
    parse(&text).map_err(|why| format!("README.md: {why}"))
}

fn parse(text: &str) -> Result<Vec<String>, String> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim() != MARKER)
        .skip(1);
    if !lines.next().is_some_and(|line| line.starts_with("```")) {
        return Err(format!("no fenced block directly below `{MARKER}`"));
    }
    let block: Vec<&str> = lines.take_while(|line| !line.starts_with("```")).collect();
    let [line] = block.as_slice() else {
        return Err("the test command must be one line".to_string());
    };
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    if !words.starts_with(&["cargo".into(), "test".into(), "--workspace".into()]) {
        return Err(format!("`{line}` does not test the workspace"));
    }
    if let Some(word) = words.iter().find(|w| NARROWING.contains(&w.as_str())) {
        return Err(format!("`{word}` in the test command leaves tests out"));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readme(line: &str) -> String {
        format!("# Tidegate\n\n{MARKER}\n```sh\n{line}\n```\n")
    }

    #[test]
    fn the_command_is_the_line_below_the_marker() {
        let words = parse(&readme("cargo test --workspace --exclude x")).unwrap();
        assert_eq!(words.join(" "), "cargo test --workspace --exclude x");
    }

    #[test]
    fn a_missing_marker_is_an_error() {
        assert!(parse("```sh\ncargo test --workspace\n```\n").is_err());
    }

    #[test]
    fn a_block_further_down_does_not_count() {
        assert!(parse(&format!("{MARKER}\n\n```sh\ncargo test --workspace\n```\n")).is_err());
    }

    #[test]
    fn two_lines_are_an_error() {
        assert!(parse(&readme("cargo test --workspace\ncargo bench")).is_err());
    }

    #[test]
    fn a_command_that_leaves_tests_out_is_an_error() {
        assert!(parse(&readme("cargo test --workspace --all-targets")).is_err());
        assert!(parse(&readme("cargo test")).is_err());
    }
}
