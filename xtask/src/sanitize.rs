//! `cargo xtask sanitize`: tests under AddressSanitizer with leak detection, or under
//! ThreadSanitizer.
//!
//! Both are flags of the nightly compiler. The target is given explicitly, so that the flags do not
//! apply to build scripts and macros. AddressSanitizer works with the precompiled standard library;
//! ThreadSanitizer needs a standard library that is built with the flag, from the component
//! `rust-src`.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Zsanitizer=address --cfg tidegate_sanitize";
const THREAD_FLAGS: &str = "-Zsanitizer=thread --cfg tidegate_sanitize";

/// The crates with unsafe code, and the crates whose tests exercise it.
const CRATES: [&str; 6] = [
    "tidegate-core",
    "tidegate-promise",
    "tidegate-timer",
    "tidegate-pool",
    "tidegate-loop",
    "tidegate-net",
];
/// Those of them whose tests run in every CI. The integration tests of the others take minutes to
/// build and to run.
pub const SHORT: [&str; 4] = [
    "tidegate-core",
    "tidegate-promise",
    "tidegate-timer",
    "tidegate-pool",
];

/// Returns `true` if a short run is not skipped.
pub fn is_available() -> bool {
    step::works(Command::new("cargo").args(["+nightly", "--version"]))
}

/// Runs the tests of `SHORT` under AddressSanitizer, optimised, so that they are also the optimised
/// tests of these crates; with `long`, the tests of the whole workspace, not optimised. The long seeds
/// are not among them: they take hours under a sanitizer, and run optimised in the nightly run.
///
/// Skips where there is no nightly toolchain. `args` go to the test programs.
///
/// # Errors
///
/// Returns an error if a test fails, or the sanitizer reports an access or a leak.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    if !is_available() {
        return Ok(Outcome::Skipped("no nightly toolchain".to_string()));
    }
    let mut command = command(root);
    if long {
        command.args(["--workspace", "--no-fail-fast"]);
        // The tests of the examples start programs that `--tests` does not build.
        let excluded = ["tidegate-examples", "xtask"];
        command.args(excluded.iter().flat_map(|name| ["--exclude", name]));
    } else {
        command.args(["--release", "--all-features"]);
        command.args(SHORT.iter().flat_map(|name| ["-p", name]));
        command.envs(step::LIGHTLY_OPTIMISED);
    }
    step::run(command.arg("--").args(args))
}

/// Runs the tests of `CRATES` under ThreadSanitizer.
///
/// Skips where the nightly toolchain has no sources of the standard library. `args` go to the test
/// programs.
///
/// # Errors
///
/// Returns an error if a test fails, or the sanitizer reports a data race.
pub fn thread(root: &Path, args: &[String]) -> step::Result {
    if !has_sources() {
        let why = "nightly lacks the sources of the standard library, `rust-src`";
        return Ok(Outcome::Skipped(why.to_string()));
    }
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["+nightly", "test", "-Zbuild-std", "--target", TARGET])
        .args(["--lib", "--tests", "--no-fail-fast", "--all-features"])
        .args(CRATES.iter().flat_map(|name| ["-p", name]))
        .env(
            "CARGO_TARGET_DIR",
            root::target_dir(root, "sanitize-thread"),
        )
        .env("RUSTFLAGS", step::appended("RUSTFLAGS", " ", THREAD_FLAGS));
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    step::run(&mut command)
}

/// Returns `true` if the nightly toolchain can build its standard library.
fn has_sources() -> bool {
    let mut command = Command::new("rustc");
    command.args(["+nightly", "--print", "sysroot"]);
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let path = output.and_then(|output| String::from_utf8(output.stdout).ok());
    path.is_some_and(|path| {
        let library = Path::new(path.trim()).join("lib/rustlib/src/rust/library");
        library.join("Cargo.lock").is_file()
    })
}

fn command(root: &Path) -> Command {
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
    command
}
