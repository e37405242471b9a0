//! Checks the structure of CHANGELOG.md: unreleased changes first, then the kinds of change in a
//! fixed order.

use super::{Finding, Tree};

const PATH: &str = "CHANGELOG.md";
const KINDS: [&str; 6] = [
    "Added",
    "Changed",
    "Renamed",
    "Removed",
    "Fixed",
    "Performance",
];

/// Checks the headings; the text below them is free.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    match tree.get(PATH) {
        Some(file) => headings(&file.text),
        None => vec![Finding::new(PATH, 0, "missing")],
    }
}

fn headings(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, message: String| findings.push(Finding::new(PATH, line, message));
    if text.lines().next() != Some("# Changelog") {
        find(1, "the first line is `# Changelog`".to_string());
    }
    let mut releases = 0;
    // The kinds that may still follow in the current release.
    let mut left: &[&str] = &[];
    for (i, line) in text.lines().enumerate().skip(1) {
        if let Some(kind) = line.strip_prefix("### ") {
            match left.iter().position(|k| *k == kind) {
                Some(at) => left = &left[at + 1..],
                None => find(
                    i + 1,
                    format!(
                        "`{kind}`: each of {} at most once, in this order",
                        KINDS.join(", ")
                    ),
                ),
            }
        } else if let Some(release) = line.strip_prefix("## ") {
            releases += 1;
            left = &KINDS;
            if (releases == 1) != (release == "Unreleased") {
                find(i + 1, "`## Unreleased` comes first, and once".to_string());
            }
        } else if line.starts_with('#') {
            find(
                i + 1,
                "only releases (`##`) and kinds of change (`###`) are headings".to_string(),
            );
        }
    }
    if releases == 0 {
        find(0, "no `## Unreleased`".to_string());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        headings(text).iter().map(|f| f.line).collect()
    }

    #[test]
    fn the_shape_is_accepted() {
        assert_eq!(
            lines(
                "# Changelog\n\n## Unreleased\n\n### Added\n- x\n### Fixed\n- y\n## 0.1.0\n### Added\n"
            ),
            []
        );
    }

    #[test]
    fn the_top_is_the_title_and_then_unreleased() {
        assert_eq!(lines("# Changes\n## Unreleased\n"), [1]);
        assert_eq!(lines("# Changelog\n## 0.1.0\n## Unreleased\n"), [2, 3]);
        assert_eq!(lines("# Changelog\n"), [0]);
    }

    #[test]
    fn only_the_known_kinds_in_order_once() {
        assert_eq!(lines("# Changelog\n## Unreleased\n### News\n"), [3]);
        assert_eq!(
            lines("# Changelog\n## Unreleased\n### Fixed\n### Added\n"),
            [4]
        );
        assert_eq!(
            lines("# Changelog\n## Unreleased\n### Added\n### Added\n"),
            [4]
        );
    }
}
