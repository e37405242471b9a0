//! The benchmarks: a workspace of their own, because the peers bring dependencies that the libraries
//! do not have.

use std::path::{Path, PathBuf};

use crate::root;
use crate::step;

/// The manifest of the benchmarks.
pub const MANIFEST: &str = "bench/Cargo.toml";

/// Checks the format of the benchmarks and runs clippy on them. Nothing is run.
///
/// # Errors
///
/// Returns an error if a check fails, or if `bench/Cargo.lock` no longer matches the workspace.
pub fn check(root: &Path) -> step::Result {
    step::run(step::cargo(root, MANIFEST, "fmt").args(["--", "--check"]))?;
    let mut clippy = step::cargo(root, MANIFEST, "clippy");
    clippy
        .args(["--all-targets", "--locked"])
        .args(["--", "-D", "warnings"])
        // The folder of the workspace: most dependencies are the same and are checked there.
        .env("CARGO_TARGET_DIR", root::target_dir(root, ""));
    step::run(&mut clippy).map_err(|why| {
        format!("{why} (where the lock file is old: cargo update --workspace --manifest-path {MANIFEST})")
    })
}

/// Builds the program, optimised, and returns its path.
///
/// # Errors
///
/// Returns an error if it does not build.
pub fn build(root: &Path) -> Result<PathBuf, String> {
    let target = root.join("bench/target");
    let mut build = step::cargo(root, MANIFEST, "build");
    build
        .args(["--release", "--quiet"])
        .env("CARGO_TARGET_DIR", &target);
    step::run(&mut build)?;
    Ok(target.join("release/tidegate-bench"))
}
