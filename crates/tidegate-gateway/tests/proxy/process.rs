//! The program `tidegate run`: its output, its signals, its status.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::*;

/// A running gateway with its file.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    file: PathBuf,
}

impl Program {
    fn start(name: &str, text: &str) -> Self {
        let file =
            std::env::temp_dir().join(format!("tidegate-{name}-{}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("run")
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, file }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the address of its only listener.
    fn address(&mut self) -> String {
        let line = self.line();
        let address = line.strip_prefix("http listens on ");
        address.unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
    }

    fn status(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

fn text(back: &Upstream, drain: &str) -> String {
    format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[drain]\n{drain}\n{}",
        route(&[back], "timeout = \"60s\"")
    )
}

#[test]
fn a_signal_finishes_the_requests_and_the_status_is_0() {
    let back = Upstream::new();
    let mut program = Program::start("drain", &text(&back, "announce = \"0s\""));
    let mut client = Peer::new(TcpStream::connect(program.address()).unwrap());
    client.write(GET);
    let mut server = back.accept();
    server.message();
    program.signal("TERM");
    assert!(program.line().starts_with("SIGTERM received: "));
    server.write(OK);
    assert_eq!(client.message().body, "ok");
    // The response may have left before the drain counts the connections.
    let last = program.line();
    assert!(
        last.starts_with("ended; connections that were open: ")
            && last.ends_with(", cut at the deadline: 0"),
        "{last}"
    );
    assert_eq!(program.status(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let back = Upstream::new();
    let mut program = Program::start("twice", &text(&back, "announce = \"60s\""));
    let mut client = Peer::new(TcpStream::connect(program.address()).unwrap());
    client.write(GET);
    back.accept().message();
    program.signal("TERM");
    assert!(program.line().starts_with("SIGTERM received: "));
    program.signal("TERM");
    assert!(program.line().contains("again"));
    assert_eq!(program.status(), Some(1));
}

#[test]
fn a_hangup_reads_the_file_again_and_a_wrong_one_changes_nothing() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let mut program = Program::start("reload", &text(&one, "announce = \"0s\""));
    let mut client = Peer::new(TcpStream::connect(program.address()).unwrap());
    client.write(GET);
    one.accept().serve(OK);
    assert_eq!(client.message().body, "ok");
    std::fs::write(&program.file, text(&two, "announce = \"0s\"")).unwrap();
    program.signal("HUP");
    assert_eq!(program.line(), "reloaded");
    client.write(GET);
    two.accept().serve(OK);
    assert_eq!(client.message().body, "ok");
    std::fs::write(&program.file, text(&one, "anounce = \"0s\"")).unwrap();
    program.signal("HUP");
    let mut said = String::new();
    while !said.contains("not reloaded") {
        said = format!("{said}{}\n", program.line());
    }
    assert!(
        said.contains("anounce") && said.contains("announce"),
        "{said}"
    );
    program.signal("TERM");
    while !program.line().starts_with("ended") {}
    assert_eq!(program.status(), Some(0));
}

#[test]
fn a_port_in_use_is_a_message_and_status_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!("[listen]\nhttp = \"{address}\"\n[route.r]\nrespond = 200\n");
    let mut program = Program::start("port", &text);
    let line = program.line();
    assert!(
        line.starts_with(&format!("listen.http: cannot listen on {address}: ")),
        "{line}"
    );
    assert_eq!(program.status(), Some(1));
}
