//! `cargo xtask miri`: tests under Miri, on toolchains that have it.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

/// Crates with unsafe code whose unit tests run under Miri.
const CRATES: [&str; 3] = ["tidegate-core", "tidegate-promise", "tidegate-timer"];

/// Runs the unit tests with strict provenance; `args` go to the test programs.
///
/// Skips where the nightly toolchain has no Miri.
///
/// # Errors
///
/// Returns an error if a test fails or Miri finds undefined behaviour.
pub fn run(root: &Path, args: &[String]) -> step::Result {
    if !step::works(Command::new("cargo").args(["+nightly", "miri", "--version"])) {
        return Ok(Outcome::Skipped("this toolchain has no Miri".to_string()));
    }
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["+nightly", "miri", "test", "--lib"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, "miri"))
        .env(
            "MIRIFLAGS",
            step::appended("MIRIFLAGS", " ", "-Zmiri-strict-provenance"),
        );
    for name in CRATES {
        command.args(["-p", name]);
    }
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    step::run(&mut command)
}
