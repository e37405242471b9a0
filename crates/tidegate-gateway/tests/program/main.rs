//! The program as a user runs it: with and without a terminal, with signals, with a reader that
//! leaves.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod bench;
mod demo;
mod terminal;
mod top;
mod tutorial;

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate::http::{HttpServer, Request, Response};
use tidegate::net::NetGroup;

use terminal::Terminal;

/// An address at which nobody listens: its port is below those that the system chooses.
const NOBODY: &str = "127.0.0.1:1";

/// What a program has printed, and its status.
#[derive(Debug)]
struct Ran {
    out: String,
    errors: String,
    status: Option<i32>,
}

/// Returns the program with arguments.
fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program without a terminal.
fn run(arguments: &[&str]) -> Ran {
    let output = tidegate(arguments).output().unwrap();
    Ran {
        out: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code(),
    }
}

/// Runs the program without a terminal until something has happened, and ends it by a signal.
fn run_until(arguments: &[&str], happened: impl FnOnce()) -> Ran {
    let mut command = tidegate(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().unwrap());
    happened();
    signal(&child.0, "TERM");
    let (mut out, mut errors) = (String::new(), String::new());
    let stdout = child.0.stdout.as_mut();
    stdout.unwrap().read_to_string(&mut out).unwrap();
    let stderr = child.0.stderr.as_mut();
    stderr.unwrap().read_to_string(&mut errors).unwrap();
    let status = child.0.wait().unwrap().code();
    Ran {
        out,
        errors,
        status,
    }
}

/// A program that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process of this test.
fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success());
}

/// Asserts that a text has neither colours nor cursor control.
fn assert_plain(text: &str) {
    assert!(!text.contains(['\x1b', '\r', '\x08']), "{text:?}");
}

/// A server on a loopback address.
struct Upstream {
    server: HttpServer,
    _group: NetGroup,
}

impl Upstream {
    fn new(service: impl Fn(Request<'_>, Response<'_>) + Clone + Send + Sync + 'static) -> Self {
        let group = tidegate::net::pinned("upstream", 1).unwrap();
        let server = tidegate::http::serve(&group, "127.0.0.1:0", service);
        Self {
            server: server.wait().unwrap(),
            _group: group,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.server.local_addr())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.server.drain(Duration::ZERO));
    }
}

#[test]
fn a_reader_that_leaves_is_not_a_failure() {
    let mut child = tidegate(&["reference"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    assert!(child.wait().unwrap().success());
}
