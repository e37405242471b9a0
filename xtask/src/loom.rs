//! `cargo xtask loom`: the model checks of every crate that has `tests/loom*.rs`.
//!
//! Loom runs a small concurrent program under every interleaving that the memory model allows, up
//! to a number of preemptions. The cfg has a name of our own, so that it does not affect
//! dependencies.

use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

/// Preemptions per execution: two find nearly every known bug; three take an evening.
const PREEMPTIONS: &str = "2";
const PREEMPTIONS_LONG: &str = "3";

/// Runs the models, one crate at a time; `args` go to the test program.
///
/// A bound that is set in the environment (`LOOM_MAX_PREEMPTIONS`) takes precedence.
///
/// # Errors
///
/// Returns an error if a model fails. Loom prints how to replay the interleaving.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    let crates = with_tests(root, "loom")?;
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has tests/loom*.rs".to_string()));
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
        .env("CARGO_TARGET_DIR", root::target_dir(root, "loom"))
        .env(
            "RUSTFLAGS",
            step::appended("RUSTFLAGS", " ", "--cfg tidegate_loom"),
        );
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        let bound = if long { PREEMPTIONS_LONG } else { PREEMPTIONS };
        command.env("LOOM_MAX_PREEMPTIONS", bound);
    }
    if long {
        command.env("TIDEGATE_LONG", "1");
    }
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}

/// Returns the crates that have test programs whose names begin with `prefix`, with the names of
/// these programs, in alphabetical order.
pub(crate) fn with_tests(root: &Path, prefix: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let entries =
        std::fs::read_dir(root.join("crates")).map_err(|e| format!("cannot list crates: {e}"))?;
    let mut crates: Vec<_> = entries
        .filter_map(|entry| entry.ok())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, programs(&entry.path().join("tests"), prefix))
        })
        .filter(|(_, tests)| !tests.is_empty())
        .collect();
    crates.sort();
    Ok(crates)
}

fn programs(tests: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(tests).into_iter().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_string()))
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}
