//! Runs named steps in order and prints a table of their durations.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::step::{self, Outcome};

/// What to do with the remaining steps after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// The remaining steps do not run.
    Stop,
    /// The remaining steps run, and the failure is reported at the end.
    Continue,
}

/// Runs `steps` in order with the workspace root and prints the duration of each; `title` names the
/// whole run.
///
/// # Errors
///
/// Returns an error if a step fails; the message names each failed step.
pub fn run<'a, F>(
    title: &str,
    root: &Path,
    steps: impl IntoIterator<Item = (&'a str, F)>,
    after_failure: AfterFailure,
) -> step::Result
where
    F: Fn(&Path) -> step::Result,
{
    let began = now();
    let mut table = Vec::new();
    let mut failures = Vec::new();
    for (name, step) in steps {
        println!("\n==> {name}");
        let started = now();
        let outcome = step(root);
        let took = seconds(now() - started);
        let verdict = match outcome {
            Ok(Outcome::Passed) => "ok".to_string(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(why) => {
                failures.push(format!("`{name}`: {why}"));
                "FAILED".to_string()
            }
        };
        println!("<== {name}: {verdict}, {took}");
        table.push((name, verdict, took));
        if !failures.is_empty() && after_failure == AfterFailure::Stop {
            break;
        }
    }
    let verdict = if failures.is_empty() {
        "passed"
    } else {
        "failed"
    };
    println!("\n{title} {verdict} in {}", seconds(now() - began));
    for (name, verdict, took) in table {
        println!("  {name:<14} {took:>9}  {verdict}");
    }
    if failures.is_empty() {
        Ok(Outcome::Passed)
    } else {
        Err(format!("{title} failed at {}", failures.join("\nand at ")))
    }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Runs `one`, which fails, and `two`; returns the steps that ran and the result of the run.
    fn with_a_failure(after: AfterFailure) -> (Vec<&'static str>, step::Result) {
        let ran = RefCell::new(Vec::new());
        let steps = ["one", "two"].map(|name| {
            let ran = &ran;
            let step = move |_: &Path| {
                ran.borrow_mut().push(name);
                match name {
                    "one" => Err("broken".to_string()),
                    _ => Ok(Outcome::Skipped("not here".to_string())),
                }
            };
            (name, step)
        });
        let ended = run("test", Path::new("."), steps, after);
        (ran.into_inner(), ended)
    }

    #[test]
    fn nothing_runs_after_a_failure_that_stops() {
        let (ran, ended) = with_a_failure(AfterFailure::Stop);
        assert_eq!(ran, ["one"]);
        assert_eq!(ended, Err("test failed at `one`: broken".to_string()));
    }

    #[test]
    fn the_rest_runs_after_a_failure_that_does_not_stop() {
        let (ran, ended) = with_a_failure(AfterFailure::Continue);
        assert_eq!(ran, ["one", "two"]);
        assert!(ended.is_err());
    }

    #[test]
    fn a_skipped_step_is_no_failure() {
        let skip = |_: &Path| Ok(Outcome::Skipped("not here".to_string()));
        let ended = run("test", Path::new("."), [("one", skip)], AfterFailure::Stop);
        assert_eq!(ended, Ok(Outcome::Passed));
    }
}
