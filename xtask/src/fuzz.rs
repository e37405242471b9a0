//! `cargo xtask fuzz`: checks the fuzz targets; `cargo xtask nightly fuzz` also runs them.
//!
//! A target is a program with libFuzzer's `main`, so cargo alone can build it. CI checks the
//! targets with the stable compiler. A run needs the nightly
//! compiler, which adds the coverage instrumentation for libFuzzer and AddressSanitizer. `cargo
//! fuzz run` does the same by hand.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The flags that cargo-fuzz passes to the compiler: counters at every branch, a table of program
/// counters, and the operands of comparisons.
const FLAGS: &str = "-Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions --cfg fuzzing";

/// Checks every target with the default compiler.
///
/// Skips where there is no C++ compiler, because libFuzzer is C++.
///
/// # Errors
///
/// Returns an error if a target does not build, or `fuzz/Cargo.lock` no longer matches the
/// workspace.
pub fn check(root: &Path) -> step::Result {
    if let Some(why) = missing_compiler() {
        return Ok(why);
    }
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["check", "--manifest-path", MANIFEST, "--bins", "--locked"])
        // The folder of the workspace: many dependencies are the same and are built there.
        .env("CARGO_TARGET_DIR", root::target_dir(root, ""))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    step::run(&mut command).map_err(|why| {
        format!("{why} (where the lock file is old: cargo update --workspace --manifest-path {MANIFEST})")
    })
}

/// Runs every target for `minutes`, one after the other. The corpus is kept below the build folder.
///
/// Skips where there is no nightly or no C++ compiler.
///
/// # Errors
///
/// Returns an error if a target does not build, or if it stops on a failing input; libFuzzer prints
/// the file with the input.
pub fn run(root: &Path, minutes: u64) -> step::Result {
    if let Some(why) = missing_compiler() {
        return Ok(why);
    }
    if !step::works(Command::new("cargo").args(["+nightly", "--version"])) {
        return Ok(Outcome::Skipped("no nightly toolchain".to_string()));
    }
    let folder = root::target_dir(root, "fuzz-run");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["+nightly", "build", "--release", "--target", TARGET])
        .args(["--manifest-path", MANIFEST, "--bins", "--locked"])
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTFLAGS", step::appended("RUSTFLAGS", " ", FLAGS));
    step::run(&mut command)?;
    for name in targets(root)? {
        let corpus = folder.join("corpus").join(&name);
        let artifacts = folder.join("artifacts").join(&name);
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder)
                .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        }
        let mut command = Command::new(folder.join(TARGET).join("release").join(&name));
        command
            .arg(&corpus)
            .arg(format!("-max_total_time={}", minutes * 60))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg("-print_final_stats=1");
        step::run(&mut command)?;
    }
    Ok(Outcome::Passed)
}

/// Returns the reason for skipping if there is no C++ compiler.
fn missing_compiler() -> Option<Outcome> {
    let there = step::works(Command::new("c++").arg("--version"));
    (!there).then(|| Outcome::Skipped("no C++ compiler for libFuzzer".to_string()))
}

/// Returns the names of the targets, in alphabetical order.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root.join("fuzz/fuzz_targets"))
        .map_err(|e| format!("cannot list the fuzz targets: {e}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_string()))
        .collect();
    names.sort();
    Ok(names)
}
