//! `cargo xtask shuttle`: runs whole event loops under controlled schedules, in every crate that
//! has `tests/shuttle*.rs`.
//!
//! Loom checks every interleaving of a few words; shuttle checks many schedules of a whole program,
//! each identified by its seed. The cfg has a name of our own, so that it does not affect
//! dependencies.

use std::path::Path;

use crate::loom;
use crate::step::{self, Outcome};

/// Runs the schedules; `args` go to the test programs.
///
/// # Errors
///
/// Returns an error if a schedule fails. Shuttle prints the schedule for a replay.
pub fn run(root: &Path, long: bool, args: &[String]) -> step::Result {
    let crates = loom::with_tests(root, "shuttle")?;
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has tests/shuttle*.rs".into()));
    }
    step::run(
        loom::command(root, "shuttle", &crates, long)
            .arg("--")
            .args(args),
    )
}
