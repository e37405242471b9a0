//! `cargo xtask sanitize`: tests under AddressSanitizer with leak detection.
//!
//! The sanitizer is a flag of the nightly compiler. Giving the target explicitly keeps the flag
//! away from build scripts and macros; the standard library needs no rebuild for it.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Zsanitizer=address --cfg tidegate_sanitize";

/// The crates with unsafe code, and those whose tests drive it.
const CRATES: [&str; 6] = [
    "tidegate-core",
    "tidegate-promise",
    "tidegate-timer",
    "tidegate-pool",
    "tidegate-loop",
    "tidegate-net",
];

/// Runs the tests of the crates above; with `long`, of the whole workspace.
///
/// Skips where there is no nightly toolchain. `args` go to the test programs.
///
/// # Errors
///
/// When a test fails, or the sanitizer reports an access or a leak.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    if !step::works(Command::new("cargo").args(["+nightly", "--version"])) {
        return Ok(Outcome::Skipped("no nightly toolchain".to_string()));
    }
    step::run(&mut command(root, long, args))
}

fn command(root: &Path, long: bool, args: &[String]) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["+nightly", "test", "--target", TARGET, "--lib", "--tests"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, "sanitize"))
        .env("RUSTFLAGS", step::appended("RUSTFLAGS", " ", FLAGS))
        .env(
            "ASAN_OPTIONS",
            step::appended("ASAN_OPTIONS", ":", "detect_leaks=1"),
        );
    if long {
        command.args([
            "--workspace",
            "--exclude",
            "tidegate-bench",
            "--exclude",
            "xtask",
        ]);
        command.env("TIDEGATE_LONG", "1");
    } else {
        for name in CRATES {
            command.args(["-p", name]);
        }
    }
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}
