//! Reads the subset of TOML that the tasks need from manifests, and checks one rule: a dependency
//! has a comment that says why it is needed.

use super::{Finding, Tree};

/// A line `key = value` of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The section header without brackets, for example `dev-dependencies`.
    pub(crate) section: &'a str,
    /// The text up to the first dot or equals sign, without quotes.
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    /// The line number, counted from one.
    pub(crate) line: usize,
    /// `true` if the line above is a comment.
    pub(crate) commented: bool,
}

impl Entry<'_> {
    /// Returns `true` if this is a dependency that the built crate needs, on any platform.
    pub(crate) fn is_dependency(&self) -> bool {
        self.section == "dependencies" || self.section.ends_with(".dependencies")
    }

    /// Returns `true` if this is a dependency of any kind, including those of tests and build
    /// scripts.
    pub(crate) fn is_any_dependency(&self) -> bool {
        self.section.ends_with("dependencies")
    }

    /// Returns the package of a dependency; it differs from the key if the dependency is renamed.
    pub(crate) fn package(&self) -> &str {
        let renamed = self
            .value
            .split_once("package")
            .and_then(|(_, rest)| rest.split('"').nth(1));
        renamed.unwrap_or(self.key)
    }
}

/// Returns the entries of a manifest in order.
///
/// A section for a single dependency (`[dependencies.rustix]`) counts as an entry of its parent.
pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut above = "";
    let mut found = Vec::new();
    for (i, line) in text.lines().map(str::trim).enumerate() {
        let commented = above.starts_with('#');
        above = line;
        let header = line.strip_prefix('[').and_then(|l| l.strip_suffix(']'));
        if let Some(header) = header.filter(|h| !h.contains('"')) {
            section = header;
            if let Some((parent, key)) = header.rsplit_once("dependencies.") {
                let parent = &header[..parent.len() + "dependencies".len()];
                found.push(Entry {
                    section: parent,
                    key,
                    value: "",
                    line: i + 1,
                    commented,
                });
            }
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let key = key
                .split('.')
                .next()
                .unwrap_or(key)
                .trim()
                .trim_matches('"');
            let value = value.trim();
            found.push(Entry {
                section,
                key,
                value,
                line: i + 1,
                commented,
            });
        }
    }
    found
}

/// Checks that every third-party dependency of a crate has a comment directly above it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in tree.manifests() {
        for entry in entries(&file.text) {
            if entry.is_dependency() && !entry.key.starts_with("tidegate") && !entry.commented {
                let message = format!(
                    "explain in a comment above it why `{}` is needed",
                    entry.key
                );
                findings.push(Finding::new(&file.path, entry.line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_section_and_package() {
        let found = entries(
            "[dependencies]\na.workspace = true\nb = { package = \"c\" }\n[target.'cfg(x)'.dependencies.d]\nversion = \"1\"\n",
        );
        let names: Vec<_> = found.iter().map(|e| (e.section, e.package())).collect();
        assert_eq!(
            names,
            [
                ("dependencies", "a"),
                ("dependencies", "c"),
                ("target.'cfg(x)'.dependencies", "d"),
                ("target.'cfg(x)'.dependencies.d", "version"),
            ]
        );
    }

    #[test]
    fn a_dependency_needs_a_reason() {
        let manifest = "[dependencies]\ntidegate-core.workspace = true\n# Sockets.\nmio = \"1\"\nrand = \"0.9\"\n[dev-dependencies]\nproptest = \"1\"\n";
        let tree = Tree::of(&[("crates/tidegate-net/Cargo.toml", manifest)]);
        let lines: Vec<usize> = check(&tree).iter().map(|f| f.line).collect();
        assert_eq!(lines, [5]);
    }
}
