//! `cargo xtask loom`: the model checks of every crate that has `tests/loom*.rs`.
//!
//! Loom runs a small concurrent program under every interleaving that the memory model allows, up
//! to a number of preemptions. The cfg has a name of our own, so that it does not affect
//! dependencies.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{self, Outcome};

/// Preemptions per execution: two find nearly every known bug.
const PREEMPTIONS: &str = "2";
const PREEMPTIONS_LONG: &str = "3";

/// The seconds after which a model with [`PREEMPTIONS_LONG`] ends, even if interleavings are left.
/// Without it, some models would take an evening each.
const SECONDS_LONG: &str = "60";

/// Runs the models; `args` go to the test programs.
///
/// A bound that is set in the environment (`LOOM_MAX_PREEMPTIONS`, `LOOM_MAX_DURATION`) takes
/// precedence.
///
/// # Errors
///
/// Returns an error if a model fails. Loom prints how to replay the interleaving.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    let crates = with_tests(root, "loom")?;
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has tests/loom*.rs".to_string()));
    }
    let mut command = command(root, "loom", &crates, long);
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        let bound = if long { PREEMPTIONS_LONG } else { PREEMPTIONS };
        command.env("LOOM_MAX_PREEMPTIONS", bound);
    }
    if long && std::env::var_os("LOOM_MAX_DURATION").is_none() {
        command.env("LOOM_MAX_DURATION", SECONDS_LONG);
    }
    step::run(command.arg("--").args(args))
}

/// Returns the command that builds and runs the test programs of all `crates` at once, under the
/// cfg `tidegate_<checker>`. It optimises little: building takes longer than running.
pub(crate) fn command(
    root: &Path,
    checker: &str,
    crates: &[(String, Vec<String>)],
    long: bool,
) -> Command {
    let cfg = format!("--cfg tidegate_{checker}");
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["test", "--release", "--no-fail-fast"])
        .env("CARGO_TARGET_DIR", root::target_dir(root, checker))
        .envs(step::LIGHTLY_OPTIMISED)
        .env("RUSTFLAGS", step::appended("RUSTFLAGS", " ", &cfg));
    let mut programs = BTreeSet::new();
    for (name, tests) in crates {
        command.args(["--package", name]);
        programs.extend(tests);
    }
    for program in programs {
        command.args(["--test", program]);
    }
    if long {
        command.env("TIDEGATE_LONG", "1");
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
