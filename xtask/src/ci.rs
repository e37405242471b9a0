//! `cargo xtask ci`: the steps of CI, in order, until the first failure.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::{env, io, thread};

use crate::step::{self, Outcome};
use crate::summary::{self, AfterFailure};
use crate::{bench, features, fuzz, interop, miri, package, page, root, sanitize, tidy, tokio};

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
    ("package", |root| package::run(root, false)),
    ("fuzz", fuzz::check),
    ("tokio", tokio::run),
];

/// Steps that run when the tasks beside the others have ended: programs that wait for each other.
const LAST: &[Step] = &[
    ("interop", |root| interop::run(root, false, &[])),
    ("page", |root| page::run(root, page::Form::Debug)),
    ("miri", |root| miri::run(root, &[])),
];

/// Tasks with build folders of their own. They run one after the other beside the steps, because
/// cargo alone leaves a fifth of two CPUs idle; their output follows that of the steps.
const BESIDE: [&str; 4] = ["deny", "loom", "shuttle", "sanitize"];

/// Runs every step and prints how long each took, or how long it was waited for.
///
/// # Errors
///
/// Returns an error if a step fails; the message names it, and later steps do not run.
pub fn run(root: &Path) -> step::Result {
    let (ended, outcomes) = mpsc::channel();
    thread::scope(move |scope| {
        // A failed step drops the receiver: the task under way is the last one.
        scope.spawn(move || {
            BESIDE
                .iter()
                .all(|task| ended.send(alone(root, task)).is_ok())
        });
        let name = |step: &Step| step.0;
        let names = STEPS.iter().map(name).chain(BESIDE);
        let steps = names.chain(LAST.iter().map(name)).map(|name| {
            let step = STEPS.iter().chain(LAST).find(|step| step.0 == name);
            let outcomes = &outcomes;
            let wait = move || shown(outcomes.recv().expect("the thread sends each outcome"));
            let run = move |root: &Path| step.map_or_else(wait, |step| step.1(root));
            (name, run)
        });
        summary::run("ci", root, steps, AfterFailure::Stop)
    })
}

/// Runs a task as a program of its own and returns what it printed.
fn alone(root: &Path, task: &str) -> io::Result<Output> {
    let mut command = Command::new(env::current_exe()?);
    command.current_dir(root).arg(task).output()
}

/// Prints the output of a task that ran alone.
fn shown(ended: io::Result<Output>) -> step::Result {
    let output = ended.map_err(|e| format!("cannot start: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let skipped = text.lines().find_map(|line| line.strip_prefix("skipped: "));
    match (output.status.success(), skipped) {
        (true, None) => Ok(Outcome::Passed),
        (true, Some(why)) => Ok(Outcome::Skipped(why.to_owned())),
        (false, _) => Err(output.status.to_string()),
    }
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
