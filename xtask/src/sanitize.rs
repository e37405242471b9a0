//! `cargo xtask sanitize`: tests under AddressSanitizer with leak detection, or under
//! ThreadSanitizer.
//!
//! Both belong to the nightly compiler. The first is a flag: giving the target explicitly keeps it
//! away from build scripts and macros, and the standard library needs no rebuild for it. The second
//! needs a standard library that was built for it, which is a target of its own.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Zsanitizer=address --cfg tidegate_sanitize";
const THREAD_TARGET: &str = "x86_64-unknown-linux-gnutsan";
const THREAD_FLAGS: &str = "--cfg tidegate_sanitize";

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

/// Runs the tests of the crates above under ThreadSanitizer.
///
/// Skips where the nightly toolchain does not have its target. `args` go to the test programs.
///
/// # Errors
///
/// When a test fails, or the sanitizer reports a data race.
pub fn thread(root: &Path, args: &[String]) -> step::Result {
    if !has_target(THREAD_TARGET) {
        let why = format!("the nightly toolchain has no target {THREAD_TARGET}");
        return Ok(Outcome::Skipped(why));
    }
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["+nightly", "test", "--target", THREAD_TARGET])
        .args(["--lib", "--tests", "--no-fail-fast"])
        .args(CRATES.iter().flat_map(|name| ["-p", name]))
        .env("CARGO_TARGET_DIR", root::target_dir(root, "sanitize"))
        .env("RUSTFLAGS", step::appended("RUSTFLAGS", " ", THREAD_FLAGS));
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    step::run(&mut command)
}

/// Says whether the nightly toolchain has a standard library for `target`.
fn has_target(target: &str) -> bool {
    let mut command = Command::new("rustc");
    command.args(["+nightly", "--print", "target-libdir", "--target", target]);
    let said = command.output().ok().filter(|said| said.status.success());
    let path = said.and_then(|said| String::from_utf8(said.stdout).ok());
    path.is_some_and(|path| Path::new(path.trim()).is_dir())
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
