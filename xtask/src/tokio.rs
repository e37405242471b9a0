//! `cargo xtask tokio`: runs the tests of the examples beside tokio.
//!
//! They form a workspace of their own with a build folder of its own, because axum, tonic and reqwest
//! bring dependencies that the libraries do not have.

use std::path::Path;

use crate::root;
use crate::step;

const MANIFEST: &str = "examples/tokio/Cargo.toml";

/// Checks the format of the examples, and runs their tests.
///
/// # Errors
///
/// Returns an error if a test fails, or if `examples/tokio/Cargo.lock` no longer matches the
/// workspace.
pub fn run(root: &Path) -> step::Result {
    let mut format = step::cargo(root, MANIFEST, "fmt");
    step::run(format.args(["--", "--check"]))?;
    let mut test = step::cargo(root, MANIFEST, "test");
    test.args(["--examples", "--tests", "--locked"])
        // The folder of the workspace: many dependencies are the same and are built there.
        .env("CARGO_TARGET_DIR", root::target_dir(root, ""));
    step::run(&mut test).map_err(|why| {
        format!("{why} (where the lock file is old: cargo update --workspace --manifest-path {MANIFEST})")
    })
}
