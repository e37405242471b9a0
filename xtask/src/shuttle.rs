//! `cargo xtask shuttle`: whole loops under chosen schedules, in every crate that has
//! `tests/shuttle*.rs`.
//!
//! Where loom looks at every interleaving of a few words, shuttle looks at many of a whole program,
//! each known by its seed. The cfg is our own, so that dependencies are not switched.

use std::path::Path;
use std::process::Command;

use crate::step::{self, Outcome};
use crate::{loom, root};

/// Runs the schedules, each crate by itself; `args` go to the test program.
///
/// # Errors
///
/// When a schedule fails. Shuttle prints it, to be replayed.
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
