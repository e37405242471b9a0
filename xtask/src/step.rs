//! Runs one step: prints the exact command, runs it, and turns a failure into an error message.

use std::path::Path;
use std::process::{Command, Stdio};

/// Settings of an optimised build for tests: enough for the compiler to reorder code, and quicker to
/// build than a release.
pub const LIGHTLY_OPTIMISED: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

/// The outcome of a step that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The step ran and found nothing wrong.
    Passed,
    /// The step did not run, for the given reason. This is not a failure.
    Skipped(String),
}

/// The result of a task; the error is a message for the user.
pub type Result = std::result::Result<Outcome, String>;

/// Runs `command` with the terminal as its output.
///
/// # Errors
///
/// Returns an error if the program cannot be started or does not exit successfully. The message
/// contains the command in a form that can be typed.
pub fn run(command: &mut Command) -> Result {
    let line = shown(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(Outcome::Passed),
        Ok(status) => Err(format!("{status}: {line}")),
        Err(e) => Err(format!("cannot start: {line}: {e}")),
    }
}

/// Returns a command of cargo on another workspace than that of the libraries.
#[must_use]
pub fn cargo(root: &Path, manifest: &str, task: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args([task, "--manifest-path", manifest]);
    command
}

/// Returns `true` if `command` exists and succeeds. Its output is not shown.
#[must_use]
pub fn works(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns the value of the environment variable `name` with `flags` appended.
#[must_use]
pub fn appended(name: &str, separator: &str, flags: &str) -> String {
    match std::env::var(name) {
        Ok(before) if !before.is_empty() => format!("{before}{separator}{flags}"),
        _ => flags.to_string(),
    }
}

/// Returns the command as a shell command line, preceded by the variables that are set for it.
fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value)))
    });
    let program = command.get_program().to_string_lossy();
    let arguments = command.get_args().map(|arg| quoted(&arg.to_string_lossy()));
    variables
        .chain([program.into_owned()])
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '"', '$', '*']) {
        word.to_string()
    } else {
        format!("'{word}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--lib"])
            .env("RUSTFLAGS", "--cfg tidegate_loom");
        assert_eq!(
            shown(&command),
            "RUSTFLAGS='--cfg tidegate_loom' cargo test --lib"
        );
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let mut command = Command::new("cargo");
        command.arg("no-such-subcommand").stderr(Stdio::null());
        let why = run(&mut command).unwrap_err();
        assert!(why.contains("cargo no-such-subcommand"), "{why}");
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_work() {
        assert!(!works(&mut Command::new("no-such-program-anywhere")));
    }
}
