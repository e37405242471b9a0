//! A program that runs until it is dropped, with every process that it has started.
//!
//! The program runs in a process group of its own, beside a shell that waits for the end of its
//! input. Then the shell asks the program to end, waits for it, and kills what is left of the group.
//! The input ends when [`Running`] is dropped, and also when this process is killed: a server with
//! worker processes leaves none of them behind.

use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How often the end of a program is looked at, and how long a look takes: two seconds in all.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(10);

/// Starts the program given as arguments. The shell closes its own output, so that the end of the
/// program is also the end of its output.
const SCRIPT: &str = r#"exec 3<&0; "$@" <&3 & exec >/dev/null; cat <&3; kill $! 2>/dev/null; wait $! 2>/dev/null; kill -KILL 0"#;

/// A running program. Dropping it ends its process group.
pub(crate) struct Running {
    shell: Child,
    /// What is left of its output: a program that prints a last line must not fail for that.
    rest: Option<Output>,
}

/// What a program prints.
pub(super) type Output = BufReader<ChildStdout>;

impl Running {
    /// Starts a program. Its input stays open and empty.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no shell. A program that does not exist ends at once.
    pub(crate) fn start(
        command: &Command,
        output: impl Into<Stdio>,
        errors: impl Into<Stdio>,
    ) -> Result<Self, String> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        shell
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors);
        let program = command.get_program().display();
        let started = shell.spawn();
        let started = started.map_err(|why| format!("cannot start {program}: {why}"))?;
        Ok(Self {
            shell: started,
            rest: None,
        })
    }

    /// Returns what the program prints, if its output is piped.
    pub(super) fn output(&mut self) -> Option<Output> {
        self.shell.stdout.take().map(BufReader::new)
    }

    /// Keeps what was not read of the output.
    pub(super) fn keep(&mut self, output: Output) {
        self.rest = Some(output);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        for _ in 0..LOOKS {
            if !matches!(self.shell.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(LOOK);
        }
        // The program does not end when it is asked to. The shell was not waited for, so the number
        // of its group is not in use again.
        let group = format!("-{}", self.shell.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Read};

    use super::*;

    /// Returns `true` if the process exists and has not ended.
    fn is_alive(id: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat"));
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    /// Waits for the end of killed processes, which may take a moment.
    fn all_end(ids: &[String]) -> bool {
        (0..1000).any(|_| {
            std::thread::park_timeout(LOOK);
            !ids.iter().any(|id| is_alive(id))
        })
    }

    #[test]
    fn the_processes_of_a_program_end_with_it() {
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 600 & echo $!; echo $$; wait"]);
        let mut running = Running::start(&program, Stdio::piped(), Stdio::null()).unwrap();
        let lines = running.output().unwrap().lines();
        let ids: Vec<String> = lines.take(2).map(Result::unwrap).collect();
        assert!(ids.iter().all(|id| is_alive(id)), "{ids:?}");
        drop(running);
        assert!(all_end(&ids), "{ids:?}");
    }

    #[test]
    fn a_program_that_does_not_want_to_end_is_killed() {
        let mut program = Command::new("sh");
        program.args(["-c", "trap '' TERM; echo $$; while :; do sleep 1; done"]);
        let mut running = Running::start(&program, Stdio::piped(), Stdio::null()).unwrap();
        let lines = running.output().unwrap().lines();
        let ids: Vec<String> = lines.take(1).map(Result::unwrap).collect();
        drop(running);
        assert!(all_end(&ids), "{ids:?}");
    }

    #[test]
    fn the_output_of_a_program_ends_with_it() {
        let mut running = Running::start(&Command::new("true"), Stdio::piped(), Stdio::null());
        let mut output = String::new();
        let output_of = running.as_mut().unwrap().output();
        output_of.unwrap().read_to_string(&mut output).unwrap();
        assert_eq!(output, "");
    }
}
