//! `cargo xtask shuttle`: runs whole event loops under controlled schedules, in every crate that
//! has `tests/shuttle*.rs`.
//!
//! Loom checks every interleaving of a few words; shuttle checks many schedules of a whole program,
//! each identified by its seed. The cfg has a name of our own, so that it does not affect
//! dependencies.

use std::path::Path;
use std::process::Command;

use crate::step::{self, Outcome};
use crate::{loom, root};

/// Runs the schedules, one crate at a time; `args` go to the test program.
///
/// # Errors
///
/// Returns an error if a schedule fails. Shuttle prints the schedule for a replay.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    let crates = loom::with_tests(root, "shuttle")?;
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has tests/shuttle*.rs".into()));
    }
    for (name, tests) in crates {
        step::run(&mut command(root, &name, &tests, long, args))?;
    }
    Ok(Outcome::Passed)
}

fn command(root: &Path, name: &str, tests: &[String], long: bool, args: &[String]) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["test", "--release", "--package", name])
        .args(tests.iter().flat_map(|test| ["--test", test.as_str()]))
        .env("CARGO_TARGET_DIR", root::target_dir(root, "shuttle"))
        .env(
            "RUSTFLAGS",
            step::appended("RUSTFLAGS", " ", "--cfg tidegate_shuttle"),
        );
    if long {
        command.env("TIDEGATE_LONG", "1");
    }
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}
