//! `cargo xtask ci`: the steps of CI, in order, until the first failure.

use std::path::Path;
use std::process::Command;

use crate::step;
use crate::summary::{self, AfterFailure};
use crate::{
    bench, deny, features, fuzz, interop, loom, miri, package, page, root, sanitize, shuttle, tidy,
    tokio,
};

/// Libraries whose tests take ten minutes to build with optimisation. The nightly run has these.
const SLOW_TO_BUILD: [&str; 9] = [
    "tidegate",
    "tidegate-gateway",
    "tidegate-http",
    "tidegate-hyper",
    "tidegate-isolate",
    "tidegate-loop",
    "tidegate-metrics",
    "tidegate-net",
    "tidegate-tower",
];

/// A step by name; the function gets the workspace root.
type Step = (&'static str, fn(&Path) -> step::Result);

const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("clippy", clippy),
    ("bench", bench::check),
    ("features", |root| features::run(root, false)),
    ("test", test),
    ("test, release", test_release),
    ("doc", doc),
    ("tidy", tidy::run),
    ("deny", deny::run),
    ("package", |root| package::run(root, false)),
    ("fuzz, build", fuzz::build),
    ("tokio", tokio::run),
    ("interop", |root| interop::run(root, false, &[])),
    ("page", |root| page::run(root, page::Form::Debug)),
    ("loom", |root| loom::run(root, false, &[])),
    ("shuttle", |root| shuttle::run(root, false, &[])),
    ("sanitize", |root| sanitize::run(root, false, &[])),
    ("miri", |root| miri::run(root, &[])),
];

/// Runs every step and prints how long each took.
///
/// # Errors
///
/// Returns an error if a step fails; the message names it, and later steps do not run.
pub fn run(root: &Path) -> step::Result {
    summary::run("ci", root, STEPS.iter().copied(), AfterFailure::Stop)
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

/// Runs unit, integration and doc tests, as the README says.
fn test(root: &Path) -> step::Result {
    step::run(cargo(root).args(["test", "--workspace"]))
}

/// Runs the tests of the libraries again, with optimisation, because debug builds hide races. Those
/// of some crates also run in the step `sanitize`, optimised as well, if it is not skipped.
fn test_release(root: &Path) -> step::Result {
    let elsewhere: &[&str] = match sanitize::is_available() {
        true => &sanitize::SHORT,
        false => &[],
    };
    let names = root::libraries(root)?;
    let mut command = cargo(root);
    command
        .args(["test", "--release", "--lib", "--tests"])
        .envs(step::LIGHTLY_OPTIMISED);
    for name in names.iter().map(String::as_str) {
        if !elsewhere.contains(&name) && !SLOW_TO_BUILD.contains(&name) {
            command.args(["-p", name]);
        }
    }
    step::run(&mut command)
}

fn doc(root: &Path) -> step::Result {
    let args = ["doc", "--workspace", "--no-deps"];
    let flags = step::appended("RUSTDOCFLAGS", " ", "-D warnings");
    step::run(cargo(root).args(args).env("RUSTDOCFLAGS", flags))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    command
}
