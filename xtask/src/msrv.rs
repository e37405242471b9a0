//! `cargo xtask msrv`: checks the workspace with the oldest supported compiler.
//!
//! Clippy finds most uses of newer APIs (`incompatible_msrv`) on every machine. This task finds the
//! rest where that compiler is installed.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};
use crate::tidy::manifest;

/// Checks all packages of the workspace.
///
/// Skips where the toolchain is not installed.
///
/// # Errors
///
/// Returns an error if something does not compile, or the workspace does not state its version.
pub fn run(root: &Path) -> step::Result {
    let text = std::fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|e| format!("cannot read Cargo.toml: {e}"))?;
    let version = stated(&text).ok_or("Cargo.toml states no rust-version")?;
    let Some(toolchain) = installed(&version) else {
        let why = format!("no toolchain {version} (rustup toolchain install {version})");
        return Ok(Outcome::Skipped(why));
    };
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args([toolchain.as_str(), "check", "--workspace", "--all-targets"])
        .args(["--locked"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, "msrv"));
    step::run(&mut command)
}

/// Returns the `rust-version` of the workspace.
fn stated(text: &str) -> Option<String> {
    let entries = manifest::entries(text);
    let mut package = entries.iter().filter(|e| e.section == "workspace.package");
    let entry = package.find(|entry| entry.key == "rust-version")?;
    Some(entry.value.trim_matches('"').to_string())
}

/// Returns the cargo argument for the toolchain `version`, under either of its two possible names.
fn installed(version: &str) -> Option<String> {
    let names = [format!("+{version}"), format!("+{version}.0")];
    names.into_iter().find(|name| {
        let mut command = Command::new("cargo");
        // Prevents rustup from installing the toolchain.
        command
            .args([name, "--version"])
            .env("RUSTUP_AUTO_INSTALL", "0");
        step::works(&mut command)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let manifest =
            "[package]\nrust-version = \"1.2\"\n[workspace.package]\nrust-version = \"1.88\"\n";
        assert_eq!(stated(manifest).as_deref(), Some("1.88"));
        assert_eq!(stated("[package]\nrust-version = \"1.2\"\n"), None);
    }
}
