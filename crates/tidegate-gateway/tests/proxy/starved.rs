//! A gateway without descriptors, in a process of its own whose limit is low.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::loaded::serve_all;
use crate::steps::spawn;
use crate::*;

/// A gateway with few descriptors.
struct Starved {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
    address: String,
}

impl Starved {
    fn start(name: &str, text: &str) -> Self {
        let file = format!("tidegate-{name}-{}", std::process::id());
        let file = std::env::temp_dir().join(file);
        let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n[log]\nsuccess = 0\n{text}");
        std::fs::write(&file, text).unwrap();
        let program = env!("CARGO_BIN_EXE_tidegate");
        let run = format!("ulimit -n 64; exec {program} run {}", file.display());
        let mut command = Command::new("sh");
        command.args(["-c", &run]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command);
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut starved = Self {
            child,
            said,
            address: String::new(),
        };
        let listens = starved.says("http listens on ");
        starved.address = listens.rsplit(' ').next().unwrap().to_owned();
        std::fs::remove_file(file).unwrap();
        starved
    }

    /// Waits until the gateway has said something on its standard error.
    fn says(&mut self, part: &str) -> String {
        let mut lines = self.said.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(part)).unwrap()
    }

    fn connect(&self) -> Peer {
        Peer::new(TcpStream::connect(&self.address).unwrap())
    }

    /// Makes more connections than the gateway has descriptors. The kernel keeps the others.
    fn fill(&mut self) -> Vec<Peer> {
        let idle = (0..100).map(|_| self.connect()).collect();
        self.says("accepts no connections for 1s");
        idle
    }

    /// Ends the gateway. Returns what it has logged.
    fn end(mut self) -> String {
        self.child.kill().unwrap();
        let mut logged = String::new();
        let mut out = self.child.stdout.take().unwrap();
        out.read_to_string(&mut logged).unwrap();
        self.child.wait().unwrap();
        logged
    }
}

impl Drop for Starved {
    /// A gateway that outlives a test which has failed would connect to the servers of others.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn without_descriptors_nobody_is_lost_who_waits() {
    let back = Upstream::on_socket();
    let mut starved = Starved::start("waits", &route(&[&back], "timeout = \"60s\""));
    let idle = starved.fill();
    let mut waits: Vec<Peer> = (0..3).map(|_| starved.connect()).collect();
    for waits in &mut waits {
        waits.write(GET);
    }
    // Still without descriptors, also after a second: nobody is accepted and closed.
    starved.says("accepts no connections for 1s");
    drop(idle);
    for _ in &waits {
        back.accept().serve(OK_CLOSE);
    }
    for waits in &mut waits {
        assert_eq!(waits.message().status(), "200");
    }
    starved.end();
}

/// Neither breaker nor health nor retries take it for a failure of the server.
#[test]
fn a_lack_of_descriptors_is_not_the_fault_of_a_server() {
    let (back, checked) = (Upstream::on_socket(), Upstream::on_socket());
    let settings = "timeout = \"60s\"\nretry = { times = 3, budget = 1.0 }\n\
                    breaker = { error_rate = 1, volume = 1, sleep = \"60s\" }";
    let text = format!(
        "{}[upstream.checked]\nservers = \"{}\"\n\
         health = {{ kind = \"tcp\", every = \"1s\", timeout = \"1s\", down = 2 }}\n\
         [route.checked]\npath = \"/checked\"\nupstream = \"checked\"\n",
        route(&[&back], settings),
        checked.address()
    );
    serve_all(checked);
    let mut starved = Starved::start("fault", &text);
    let mut idle = starved.fill();
    // The first ones may still get a descriptor.
    let mut served = Vec::new();
    let refused = idle.iter_mut().find_map(|client| {
        client.write(GET);
        client.0.set_nonblocking(true);
        let (before, mut is_refused) = (served.len(), false);
        tidegate_testkit::until("it is passed on or refused", || {
            served.extend(back.0.try_accept().ok());
            is_refused = client.0.peek(&mut [0]).is_ok();
            is_refused || served.len() > before
        });
        client.0.set_nonblocking(false);
        is_refused.then(|| client.message())
    });
    let refused = refused.unwrap();
    assert_eq!(refused.status(), "503");
    let reason = refused.field("Tidegate-Refused");
    assert_eq!(reason, Some("descriptors shop"), "{refused:?}");
    // More checks than it takes.
    for _ in 0..3 {
        let checks = starved.says("upstream.checked ");
        assert!(checks.contains("not checked: "), "{checks}");
    }
    drop(idle);
    let mut client = starved.connect();
    client.write(&GET.replace("/a", "/checked"));
    let message = client.message();
    assert_eq!(message.status(), "200", "it is still up: {message:?}");
    client.write(GET);
    back.accept().serve(OK);
    assert_eq!(client.message().status(), "200", "the breaker is closed");
    let logged = starved.end();
    // Until here, because a server that closes is a failure.
    drop(served);
    let line = logged.lines().find(|line| line.contains("descriptors"));
    let line = line.unwrap();
    for part in ["\"outcome\":\"refused\"", "\"attempts\":1,"] {
        assert!(line.contains(part), "{line}");
    }
}
