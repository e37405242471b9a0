//! Runs this program again as a child process that communicates in lines.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Returns the command that starts this program again.
pub(crate) fn command() -> Result<Command, String> {
    let program = std::env::current_exe();
    Ok(Command::new(program.map_err(|why| why.to_string())?))
}

/// A child process and the pipes to and from it. Dropping it ends the child.
pub(crate) struct ChildProcess {
    child: Child,
    /// `None` once the child was told to end.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl ChildProcess {
    /// Starts this program with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, String> {
        Self::spawn(command()?.args(arguments))
    }

    /// Starts a program with pipes to and from it.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("cannot start it: {why}"))?;
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Ok(Self {
            child,
            input: Some(input),
            output,
        })
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line, given without its line break.
    pub(crate) fn send_line(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("it has ended")?;
        let sent = input.write_all(format!("{line}\n").as_bytes());
        sent.map_err(|why| why.to_string())
    }

    /// Waits for the next line and returns it without its line break.
    pub(crate) fn read_line(&mut self) -> Result<String, String> {
        let line = self.output.next().ok_or("it has ended")?;
        line.map_err(|why| why.to_string())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
