//! Checks that the tree contains no paths of a developer's machine.

use super::{Finding, Tree};

/// Folders that exist on one machine. Written in two parts so that this file does not contain them.
const FOLDERS: [&str; 3] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
];

/// Finds absolute paths below these folders, in every text file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (line, text) in file.lines() {
            if let Some(folder) = FOLDERS.into_iter().find(|folder| has_path(text, folder)) {
                let message = format!("`{folder}…` exists on one machine only");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Returns `true` if `folder` occurs at the beginning of a path, not in the middle.
fn has_path(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~*}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_machine_paths_are_found() {
        let text = format!("see `{}main`\n../x{}y\n", FOLDERS[0], FOLDERS[2]);
        let tree = Tree::of(&[("README.md", &text)]);
        let lines: Vec<usize> = check(&tree).iter().map(|f| f.line).collect();
        assert_eq!(lines, [1]);
    }
}
