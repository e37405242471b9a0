//! `cargo xtask features`: each library crate without its default features, and with each feature
//! alone.
//!
//! Crates without features are left out, because the other steps build them.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};
use crate::tidy::manifest;

/// Checks the library crates that have features, with warnings as errors.
///
/// # Errors
///
/// Returns an error if a crate does not compile with one of these feature sets.
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
    Ok(Outcome::Passed)
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
}
