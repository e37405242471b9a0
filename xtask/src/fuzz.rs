//! `cargo xtask fuzz`: builds the fuzz targets; `cargo xtask nightly fuzz` also runs them.
//!
//! A target is a program with libFuzzer's `main`, so that cargo alone can build it. CI does so with
//! the usual compiler, to know that they still compile. A run needs the nightly compiler: it adds
//! what libFuzzer steers by, and AddressSanitizer. `cargo fuzz run` does the same by hand.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Counters at every branch, a table of places, and the operands of comparisons: what cargo-fuzz
/// gives the compiler.
const FLAGS: &str = "-Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions --cfg fuzzing";

/// Builds every target with the usual compiler.
///
/// Skips where there is no C++ compiler, since libFuzzer is C++.
///
/// # Errors
///
/// When a target does not build, or `fuzz/Cargo.lock` does not fit the workspace any more.
pub fn build(root: &Path) -> step::Result {
    if let Some(why) = missing_compiler() {
        return Ok(why);
    }
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["build", "--manifest-path", MANIFEST, "--bins", "--locked"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, "fuzz"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    step::run(&mut command).map_err(|why| {
        format!("{why} (where the lock file is old: cargo update --workspace --manifest-path {MANIFEST})")
    })
}

/// Lets every target run for `minutes`, one after the other, with a corpus that stays below the
/// build folder.
///
/// Skips where there is no nightly or no C++ compiler.
///
/// # Errors
///
/// When a target does not build or ends by itself; libFuzzer says which file holds the input.
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

/// Says why nothing can be built, where that is so.
fn missing_compiler() -> Option<Outcome> {
    let there = step::works(Command::new("c++").arg("--version"));
    (!there).then(|| Outcome::Skipped("no C++ compiler for libFuzzer".to_string()))
}

/// The names of the targets, in alphabetical order.
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
