//! `cargo xtask ci`: the steps of CI, in order, until the first failure.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::step::{self, Outcome};
use crate::{interop, loom, miri, readme, sanitize, shuttle, tidy};

/// Crates whose tests also run optimised: races hide in debug builds.
const RELEASE_TESTED: [&str; 4] = [
    "tidegate-core",
    "tidegate-promise",
    "tidegate-pool",
    "tidegate-loop",
];

/// A step by name; the function gets the workspace root.
type Step = (&'static str, fn(&Path) -> step::Result);

const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("clippy", clippy),
    ("test", test),
    ("test, release", test_release),
    ("doc", doc),
    ("tidy", tidy::run),
    ("interop", interop::run),
    ("loom", |root| loom::run(root, false, &[])),
    ("shuttle", |root| shuttle::run(root, false, &[])),
    ("sanitize", |root| sanitize::run(root, false, &[])),
    ("miri", |root| miri::run(root, &[])),
];

/// Runs every step and prints how long each took.
///
/// # Errors
///
/// When a step fails; the sentence names it, and later steps do not run.
pub fn run(root: &Path) -> step::Result {
    let begin = now();
    let mut summary = Vec::new();
    for (name, step) in STEPS {
        println!("\n==> {name}");
        let started = now();
        let outcome = step(root);
        let took = seconds(now() - started);
        let verdict = match outcome {
            Ok(Outcome::Passed) => "ok".to_string(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(why) => {
                println!("<== {name}: FAILED after {took}");
                return Err(format!("ci stopped at `{name}`: {why}"));
            }
        };
        println!("<== {name}: {verdict}, {took}");
        summary.push((name, verdict, took));
    }
    println!("\nci passed in {}", seconds(now() - begin));
    for (name, verdict, took) in summary {
        println!("  {name:<14} {took:>8}  {verdict}");
    }
    Ok(Outcome::Passed)
}

fn fmt(root: &Path) -> step::Result {
    step::run(cargo(root).args(["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> step::Result {
    let args = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    step::run(cargo(root).args(args))
}

/// Unit, integration and doc tests, by the command that the README gives its readers.
fn test(root: &Path) -> step::Result {
    let words = readme::test_command(root)?;
    step::run(cargo(root).args(&words[1..]))
}

fn test_release(root: &Path) -> step::Result {
    let mut command = cargo(root);
    command.args(["test", "--release", "--lib", "--tests"]);
    for name in RELEASE_TESTED {
        command.args(["-p", name]);
    }
    step::run(&mut command)
}

fn doc(root: &Path) -> step::Result {
    let args = [
        "doc",
        "--workspace",
        "--no-deps",
        "--exclude",
        "tidegate-bench",
    ];
    let flags = step::appended("RUSTDOCFLAGS", " ", "-D warnings");
    step::run(cargo(root).args(args).env("RUSTDOCFLAGS", flags))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a step took is real time, not the time of a program under test"
)]
fn now() -> Instant {
    Instant::now()
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}
