//! Checks the level order: a crate depends only on crates of a lower level.
//!
//! A manifest states the level as `[package.metadata.tidegate] level = N`, or `"dev"` for crates
//! that only tests may use. A test may use crates of a higher level, so dev-dependencies are
//! restricted in one case only: a crate below the facade does not depend on the facade. A test of
//! such a crate would need every other crate, and a program that needs the facade is a test of the
//! facade itself.

use std::collections::HashMap;

use super::manifest::{self, Entry};
use super::tree::File;
use super::{Finding, Tree};

/// The package of the facade.
const FACADE: &str = "tidegate";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Number(u32),
    /// For tests only.
    Dev,
}

/// Checks that every crate has a level and that its dependencies have lower ones.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut levels = HashMap::new();
    for (name, file) in tree.manifests() {
        match level(&manifest::entries(&file.text)) {
            Some(level) => {
                levels.insert(name, level);
            }
            None => findings.push(Finding::new(
                &file.path,
                0,
                "no level: add `[package.metadata.tidegate]` with `level = N` or `level = \"dev\"`",
            )),
        }
    }
    for (name, file) in tree.manifests() {
        if let Some(Level::Number(own)) = levels.get(name) {
            findings.extend(upward(name, *own, file, &levels));
        }
        if is_below_the_facade(name, &levels) {
            findings.extend(tests_with_the_facade(name, file));
        }
    }
    findings
}

fn level(entries: &[Entry<'_>]) -> Option<Level> {
    let entry = entries
        .iter()
        .find(|e| e.section == "package.metadata.tidegate" && e.key == "level")?;
    match entry.value {
        "\"dev\"" => Some(Level::Dev),
        number => number.parse().ok().map(Level::Number),
    }
}

fn upward(name: &str, own: u32, file: &File, levels: &HashMap<&str, Level>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in manifest::entries(&file.text) {
        if !entry.is_any_dependency() || entry.section.ends_with("dev-dependencies") {
            continue;
        }
        let package = entry.package();
        let message = match levels.get(package) {
            Some(Level::Number(below)) if *below < own => continue,
            Some(Level::Number(other)) => {
                format!("{name} has level {own} and may not depend on {package}, level {other}")
            }
            Some(Level::Dev) => format!("{package} is for tests: only a dev-dependency"),
            None => continue,
        };
        findings.push(Finding::new(&file.path, entry.line, message));
    }
    findings
}

/// Returns `true` if the facade may depend on this crate.
fn is_below_the_facade(name: &str, levels: &HashMap<&str, Level>) -> bool {
    match (levels.get(name), levels.get(FACADE)) {
        (Some(Level::Number(own)), Some(Level::Number(facade))) => own < facade,
        (Some(Level::Dev), Some(_)) => true,
        _ => false,
    }
}

fn tests_with_the_facade(name: &str, file: &File) -> Vec<Finding> {
    let entries = manifest::entries(&file.text);
    let facade = entries
        .iter()
        .filter(|entry| entry.section.ends_with("dev-dependencies") && entry.package() == FACADE);
    let message = format!(
        "{name} is below the facade and may not use it in tests: move the test into the facade"
    );
    facade
        .map(|entry| Finding::new(&file.path, entry.line, message.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(level: &str, rest: &str) -> String {
        format!("[package.metadata.tidegate]\nlevel = {level}\n{rest}")
    }

    fn findings(upper: &str) -> Vec<Finding> {
        check(&Tree::of(&[
            ("crates/low/Cargo.toml", &crate_of("0", "")),
            (
                "crates/kit/Cargo.toml",
                &crate_of("\"dev\"", "[dependencies]\nmid.workspace = true\n"),
            ),
            ("crates/mid/Cargo.toml", &crate_of("1", upper)),
            ("crates/side/Cargo.toml", &crate_of("1", "")),
        ]))
    }

    #[test]
    fn downward_is_fine() {
        let manifest = "[dependencies]\nlow.workspace = true\n[dev-dependencies]\nkit.workspace = true\nside.workspace = true\n";
        assert_eq!(findings(manifest), []);
    }

    #[test]
    fn the_same_level_is_refused_also_when_renamed() {
        assert_eq!(findings("[dependencies]\nside.workspace = true\n").len(), 1);
        assert_eq!(
            findings("[dependencies]\nx = { path = \"../side\", package = \"side\" }\n").len(),
            1
        );
        assert_eq!(
            findings("[target.'cfg(unix)'.dependencies]\nside.workspace = true\n").len(),
            1
        );
    }

    #[test]
    fn the_test_kit_is_only_a_dev_dependency() {
        assert_eq!(findings("[dependencies]\nkit.workspace = true\n").len(), 1);
        assert_eq!(
            findings("[build-dependencies]\nkit.workspace = true\n").len(),
            1
        );
    }

    #[test]
    fn the_facade_is_no_dev_dependency_of_a_crate_below_it() {
        let lines = |level: &str, rest: &str| -> Vec<usize> {
            let findings = check(&Tree::of(&[
                ("crates/tidegate/Cargo.toml", &crate_of("6", "")),
                ("crates/low/Cargo.toml", &crate_of(level, rest)),
            ]));
            findings.iter().map(|finding| finding.line).collect()
        };
        let plain = "[dev-dependencies]\ntidegate.workspace = true\n";
        assert_eq!(lines("5", plain), [4]);
        assert_eq!(lines("\"dev\"", plain), [4]);
        let renamed =
            "[dev-dependencies]\nfacade = { path = \"../tidegate\", package = \"tidegate\" }\n";
        assert_eq!(lines("5", renamed), [4]);
        let section = "[target.'cfg(unix)'.dev-dependencies.tidegate]\npath = \"../tidegate\"\n";
        assert_eq!(lines("5", section), [3]);
        assert_eq!(lines("7", plain), []);
        assert_eq!(lines("5", "[dev-dependencies]\nother = \"1\"\n"), []);
    }

    #[test]
    fn a_crate_without_a_level_is_refused() {
        assert_eq!(
            check(&Tree::of(&[("crates/low/Cargo.toml", "[package]\n")])).len(),
            1
        );
        assert_eq!(
            check(&Tree::of(&[(
                "crates/low/Cargo.toml",
                &crate_of("high", "")
            )]))
            .len(),
            1
        );
    }
}
