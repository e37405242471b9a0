//! `cargo xtask deny`: checks the dependency graph with `cargo deny` and `deny.toml`.
//!
//! Uses the installed cargo-deny if it can read our `deny.toml`. Otherwise it installs one into the
//! folder for caches, from the crates registry, with settings that favour build time over run time.
//! Later runs find it there, also those of other clones.
//! Advisories are not checked, because their database is not in the registry.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step;

/// The version to install where there is no suitable cargo-deny.
const VERSION: &str = "0.20.2";
/// Older versions cannot read our `deny.toml`.
const OLDEST: [u32; 2] = [0, 20];

/// Settings for a quick build: the program runs for a second, but a release build takes minutes.
const QUICK_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Checks bans, licences and sources of all dependencies that a user would build.
///
/// # Errors
///
/// Returns an error if the graph breaks a rule of `deny.toml`, or cargo-deny cannot be installed.
pub fn run(root: &Path) -> step::Result {
    let tools = root::cache_dir("tidegate-tools");
    let own = tools.join("bin/cargo-deny");
    let mut command = if is_new_enough(Command::new("cargo").args(["deny", "--version"])) {
        let mut command = Command::new("cargo");
        command.arg("deny");
        command
    } else {
        if !is_new_enough(Command::new(&own).arg("--version")) {
            install(root, &tools)?;
        }
        Command::new(&own)
    };
    let command = command.current_dir(root).arg("--locked");
    step::run(command.args(["check", "bans", "licenses", "sources"]))
}

fn install(root: &Path, tools: &Path) -> step::Result {
    println!("no cargo-deny of version {VERSION} or later here: installing one");
    let build = root::target_dir(root, "tools");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["install", "cargo-deny", "--locked", "--quiet"])
        .args(["--version", VERSION])
        .arg("--root")
        .arg(tools)
        .arg("--target-dir")
        .arg(&build)
        .envs(QUICK_BUILD);
    let installed = step::run(&mut command);
    // Half a gigabyte that is not needed any more; a failure to remove it is harmless.
    let _ = std::fs::remove_dir_all(&build);
    installed
}

/// Returns `true` if `command`, which prints its version, exists and is new enough.
fn is_new_enough(command: &mut Command) -> bool {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.and_then(|text| version(&text))
        .is_some_and(|version| version >= OLDEST)
}

/// Returns the first two numbers of `cargo-deny 0.20.2`.
fn version(text: &str) -> Option<[u32; 2]> {
    let mut numbers = text.split_whitespace().nth(1)?.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("cargo-deny 0.20.2\n"), Some([0, 20]));
        assert!(version("cargo-deny 0.9.1") < Some(OLDEST));
        assert!(version("cargo-deny 1.0.0") > Some(OLDEST));
        assert_eq!(version("cargo-deny"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_not_new_enough() {
        assert!(!is_new_enough(&mut Command::new(
            "no-such-program-anywhere"
        )));
    }
}
