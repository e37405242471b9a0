//! Running one step: print the exact command, run it, turn a bad exit into a sentence.

use std::process::{Command, Stdio};

/// How a step ended when it did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and found nothing wrong.
    Passed,
    /// It did not run, for the reason given; never a failure.
    Skipped(String),
}

/// What every task returns; the error is a sentence for the person who ran it.
pub type Result = std::result::Result<Outcome, String>;

/// Runs `command` with the terminal as its output.
///
/// # Errors
///
/// When the program cannot be started or exits with anything but success. The sentence contains
/// the command as one could type it.
pub fn run(command: &mut Command) -> Result {
    let line = shown(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(Outcome::Passed),
        Ok(status) => Err(format!("{status}: {line}")),
        Err(e) => Err(format!("cannot start: {line}: {e}")),
    }
}

/// Says whether `command` exists and succeeds, without showing its output.
#[must_use]
pub fn works(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Appends `flags` to what the caller's environment already has in `name`.
#[must_use]
pub fn appended(name: &str, separator: &str, flags: &str) -> String {
    match std::env::var(name) {
        Ok(before) if !before.is_empty() => format!("{before}{separator}{flags}"),
        _ => flags.to_string(),
    }
}

/// Returns the command as a line for a shell, with the variables set for it in front.
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
