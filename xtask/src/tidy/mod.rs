//! `cargo xtask tidy`: project rules that the compiler does not check.
//!
//! Each rule is a small function from the files of the workspace to findings, in a file of its own.
//! The same checks run as a test (`xtask/tests/tidy.rs`), so `cargo test` runs them too.
//!
//! # Invariants
//!
//! * A check reads the [`Tree`] and nothing else: no clock, no network, no process.
//! * A check does not stop at the first finding.

mod architecture;
mod circles;
mod conformance;
mod levels;
mod lexer;
mod long;
pub(crate) mod manifest;
mod markdown;
mod names;
mod ordering;
mod paths;
mod places;
mod size;
mod syntax;
mod tree;
mod unsafe_code;
mod words;

use std::fmt;
use std::path::Path;

use crate::step::{self, Outcome};
pub use tree::Tree;

/// The rules, in no particular order.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    levels::check,
    manifest::check,
    unsafe_code::check,
    ordering::check,
    words::check,
    paths::check,
    long::check,
    circles::check,
    size::check,
    conformance::check,
    places::check,
    architecture::check,
    names::check,
];

/// A violation of a rule: its position, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    /// The line number, counted from one; zero means the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: path.to_string(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs every check over `tree` and returns the findings sorted by position.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Checks the workspace at `root` and prints the findings.
///
/// # Errors
///
/// Returns an error if there is a finding or a file cannot be read.
pub fn run(root: &Path) -> step::Result {
    let findings = check(&read(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(Outcome::Passed),
        1 => Err("tidy found one thing".to_string()),
        n => Err(format!("tidy found {n} things")),
    }
}

/// Prints the sizes of the workspace at `root`.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub fn size(root: &Path) -> step::Result {
    print!("{}", size::table(&read(root)?));
    Ok(Outcome::Passed)
}

fn read(root: &Path) -> Result<Tree, String> {
    Tree::read(root).map_err(|e| format!("cannot read the workspace: {e}"))
}
