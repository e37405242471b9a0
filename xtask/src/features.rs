//! `cargo xtask features`: each library crate without its default features, and with each feature
//! alone.
//!
//! Crates without features are left out, because the other steps build them.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};
use crate::tidy::manifest;

/// Packages that a program with the isolation alone does not build.
const NOT_FOR_ISOLATION: [&str; 5] = ["mio", "ring", "rustls", "tidegate-net", "tower-layer"];

/// Checks the library crates that have features, with warnings as errors, and what the isolation
/// alone builds.
///
/// # Errors
///
/// Returns an error if a crate does not compile with one of these feature sets, or if the isolation
/// alone builds the network or TLS.
pub fn run(root: &Path) -> step::Result {
    for name in root::libraries(root)? {
        let path = root.join("crates").join(&name).join("Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let features = features(&text);
        if features.is_empty() {
            continue;
        }
        step::run(&mut command(root, &name, None))?;
        for feature in features {
            step::run(&mut command(root, &name, Some(&feature)))?;
        }
    }
    isolation_alone(root)
}

/// Checks that the facade with the feature `isolate` alone builds neither the network nor TLS.
fn isolation_alone(root: &Path) -> step::Result {
    let mut tree = Command::new("cargo");
    tree.current_dir(root)
        .args(["tree", "--package", "tidegate", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(["--no-default-features", "--features", "isolate"]);
    let output = tree
        .output()
        .map_err(|e| format!("cannot start cargo tree: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree: {}", why.trim()));
    }
    match unwanted(&String::from_utf8_lossy(&output.stdout)) {
        Some(package) => Err(format!("the feature `isolate` alone builds `{package}`")),
        None => Ok(Outcome::Passed),
    }
}

/// Returns the first package of a list that the isolation should not build.
fn unwanted(packages: &str) -> Option<&str> {
    let mut names = packages.lines().filter_map(|line| line.split(' ').next());
    names.find(|name| NOT_FOR_ISOLATION.contains(name))
}

fn command(root: &Path, name: &str, feature: Option<&str>) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["clippy", "--package", name]);
    command.arg("--no-default-features");
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    command.args(["--", "-D", "warnings"]);
    command
}

/// Returns the features of a manifest except `default`: the listed ones, and the optional
/// dependencies that have no `dep:`.
fn features(text: &str) -> Vec<String> {
    let entries = manifest::entries(text);
    let listed = entries
        .iter()
        .filter(|entry| entry.section == "features" && entry.key != "default");
    let implied = entries.iter().filter(|entry| {
        let optional = entry.value.contains("optional = true");
        entry.is_dependency() && optional && !text.contains(&format!("\"dep:{}\"", entry.key))
    });
    listed
        .chain(implied)
        .map(|entry| entry.key.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_those_listed_and_those_implied() {
        let manifest = "[features]\ndefault = [\"tls\"]\ntls = [\n  \"dep:rustls\",\n]\n\
             [dependencies]\nrustls = { version = \"1\", optional = true }\n\
             log = { version = \"1\", optional = true }\nbytes = \"1\"\n";
        assert_eq!(features(manifest), ["tls", "log"]);
        assert!(features("[dependencies]\nbytes = \"1\"\n").is_empty());
    }

    #[test]
    fn a_package_that_the_isolation_does_not_need_is_found() {
        assert_eq!(
            unwanted("tidegate v0.1.0 (x)\ntidegate-core v0.1.0\n"),
            None
        );
        let packages = "tidegate v0.1.0\nrustls v0.23.46\n";
        assert_eq!(unwanted(packages), Some("rustls"));
    }
}
