//! `cargo xtask nightly`: the checks that take too long for every push.
//!
//! The parts run in order; a part can also be run alone by name. Later parts run even if one fails:
//! the table at the end has a line for each.

use std::path::Path;
use std::process::Command;

use crate::summary::{self, AfterFailure};
use crate::{
    bench, cost, dashboard, features, fuzz, interop, loom, miri, package, page, platforms, root,
    sanitize, shuttle, step,
};

/// Minutes per fuzz target without `--minutes`.
const FUZZ_MINUTES: u64 = 5;

/// A part: its name, and a function of the workspace root and the minutes per fuzz target.
type Part = (&'static str, fn(&Path, u64) -> step::Result);

const PARTS: &[Part] = &[
    ("seeds", |root, _| seeds(root)),
    ("loom", |root, _| loom::run(root, true, &[])),
    ("shuttle", |root, _| shuttle::run(root, true, &[])),
    ("address", |root, _| sanitize::run(root, true, &[])),
    ("thread", |root, _| sanitize::thread(root, &[])),
    ("miri", |root, _| miri::run(root, &[])),
    ("platforms", |root, _| platforms::run(root)),
    ("features", |root, _| features::run(root, true)),
    ("package", |root, _| package::run(root, true)),
    ("interop", |root, _| interop::run(root, true, &[])),
    ("dashboard", |root, _| dashboard::run(root)),
    ("page", |root, _| page::run(root, page::Form::Long)),
    ("fuzz", fuzz::run),
    ("cost", |root, _| cost::all(root)),
    ("proof", |root, _| benchmark(root, &["proof"])),
    ("bench", |root, _| benchmark(root, &["all"])),
];

/// Runs the parts that `args` names, or all: `[--minutes N] [part...]`.
///
/// # Errors
///
/// Returns an error if an argument is invalid, or if a part fails.
pub fn run(root: &Path, args: &[&str]) -> step::Result {
    let (parts, minutes) = parse(args)?;
    let steps = parts.into_iter().map(|(name, part)| {
        let step = move |root: &Path| part(root, minutes);
        (name, step)
    });
    summary::run("nightly", root, steps, AfterFailure::Continue)
}

fn parse(args: &[&str]) -> Result<(Vec<Part>, u64), String> {
    let mut minutes = FUZZ_MINUTES;
    let mut named = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if *arg == "--minutes" {
            let number = args.next().and_then(|number| number.parse().ok());
            // For libFuzzer, zero means forever.
            let number = number.filter(|minutes| *minutes > 0);
            minutes = number.ok_or("--minutes takes a number from one on")?;
        } else if PARTS.iter().any(|(name, _)| name == arg) {
            named.push(*arg);
        } else {
            let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
            return Err(format!("no part `{arg}`; there are: {}", names.join(", ")));
        }
    }
    let parts = PARTS
        .iter()
        .filter(|(name, _)| named.is_empty() || named.contains(name));
    Ok((parts.copied().collect(), minutes))
}

/// Runs the tests of the libraries with many more seeds, with optimisation.
fn seeds(root: &Path) -> step::Result {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["test", "--release", "--lib", "--tests", "--no-fail-fast"])
        .env("TIDEGATE_LONG", "1");
    for name in root::libraries(root)? {
        command.args(["--package", &name]);
    }
    step::run(&mut command)
}

/// Runs the benchmark program: all tables with all rounds, or the gateway under load.
fn benchmark(root: &Path, args: &[&str]) -> step::Result {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["run", "--release", "--manifest-path", bench::MANIFEST])
        .arg("--")
        .args(args);
    step::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> (Vec<&'static str>, u64) {
        let (parts, minutes) = parse(args).unwrap();
        (parts.iter().map(|(name, _)| *name).collect(), minutes)
    }

    #[test]
    fn without_a_name_every_part_runs() {
        let (parts, minutes) = names(&[]);
        assert_eq!(parts.len(), PARTS.len());
        assert_eq!(minutes, FUZZ_MINUTES);
    }

    #[test]
    fn named_parts_run_in_the_order_of_the_list() {
        assert_eq!(
            names(&["fuzz", "--minutes", "1", "loom"]),
            (vec!["loom", "fuzz"], 1)
        );
    }

    #[test]
    fn other_arguments_are_errors() {
        let why = parse(&["lom"]).unwrap_err();
        assert!(why.contains("lom") && why.contains("loom"), "{why}");
        assert!(parse(&["--minutes"]).is_err());
        assert!(parse(&["--minutes", "ten"]).is_err());
        assert!(parse(&["--minutes", "0"]).is_err());
    }
}
