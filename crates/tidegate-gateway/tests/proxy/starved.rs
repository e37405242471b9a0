//! A gateway without descriptors: on a manual clock, in a network that refuses them, and in a process of
//! its own whose limit is low.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::LazyLock;

use tidegate_net::Server;
use tidegate_net::internal::LocalNetwork;

use tidegate_testkit::has;

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

    /// Waits until the gateway has logged something.
    fn logs(&mut self, part: &str) -> String {
        let out = BufReader::new(self.child.stdout.take().unwrap());
        let mut lines = out.lines().map(Result::unwrap);
        lines.find(|line| line.contains(part)).unwrap()
    }
}

impl Drop for Starved {
    /// A gateway that outlives a test which has failed would connect to the servers of others.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway on a manual clock, in a network of its own in which it may lack descriptors.
fn starvable(network: &'static LocalNetwork, text: &str) -> Fixture {
    Fixture::with(text, 1, Wires::Own(network))
}

#[test]
fn without_descriptors_nobody_is_lost_who_waits() {
    static NETWORK: LazyLock<LocalNetwork> = LazyLock::new(LocalNetwork::new);
    let back = Upstream::with(Wires::Own(&NETWORK));
    let fixture = starvable(&NETWORK, &route(&[&back], "timeout = \"60s\""));
    NETWORK.set_starved(true);
    let mut waits = [(); 3].map(|()| fixture.send(GET));
    // Still without descriptors, also after a pause: nobody is accepted and closed.
    for pauses in 1..=3 {
        tidegate_testkit::until("accepting pauses", || {
            fixture.group.io_metrics()[0].accept_pauses == pauses
        });
        fixture.in_one_turn(|| ());
        if pauses == 3 {
            NETWORK.set_starved(false);
        }
        fixture.clock.advance(Server::ACCEPT_PAUSE);
    }
    for _ in &waits {
        back.accept().serve(OK_CLOSE);
    }
    for waits in &mut waits {
        assert_eq!(waits.message().status(), "200");
    }
    assert_eq!(NETWORK.starved(), 3);
}

/// Neither breaker nor health nor retries take it for a failure of the server.
#[test]
fn a_lack_of_descriptors_is_not_the_fault_of_a_server() {
    static NETWORK: LazyLock<LocalNetwork> = LazyLock::new(LocalNetwork::new);
    let [back, checked] = [(); 2].map(|()| Upstream::with(Wires::Own(&NETWORK)));
    let settings = "timeout = \"60s\"\nretry = { times = 3, budget = 1.0 }\n\
                    breaker = { error_rate = 1, volume = 1, sleep = \"60s\" }";
    let text = format!(
        "{}[upstream.checked]\nservers = \"{}\"\n\
         health = {{ kind = \"tcp\", every = \"1s\", timeout = \"1s\", down = 2 }}\n\
         [route.checked]\npath = \"/checked\"\nupstream = \"checked\"\n",
        route(&[&back], settings),
        checked.address()
    );
    let fixture = starvable(&NETWORK, &text);
    let mut client = fixture.send(&GET.replace("/a", "/%zz"));
    assert_eq!(client.message().status(), "400", "it is accepted");
    NETWORK.set_starved(true);
    client.write(GET);
    let refused = client.message();
    assert_eq!(refused.status(), "503");
    let reason = refused.field("Tidegate-Refused");
    assert_eq!(reason, Some("descriptors shop"), "{refused:?}");
    assert_eq!(NETWORK.starved(), 1, "it is not tried again");
    // More checks than it takes.
    for checks in 2..=4 {
        tidegate_testkit::until("the server is checked", || {
            fixture.clock.advance(Duration::from_millis(100));
            NETWORK.starved() >= checks
        });
    }
    NETWORK.set_starved(false);
    let mut client = fixture.send(&GET.replace("/a", "/checked"));
    serve_all(checked);
    let message = client.message();
    assert_eq!(message.status(), "200", "it is still up: {message:?}");
    client.write(GET);
    back.accept().serve(OK);
    assert_eq!(client.message().status(), "200", "the breaker is closed");
}

/// What a process has whose limit is low: the error of the system, its reports and its log.
#[test]
fn a_program_without_descriptors_refuses_requests_and_says_so() {
    let back = Upstream::on_socket();
    let settings = "timeout = \"60s\"\nretry = { times = 3, budget = 1.0 }";
    let mut starved = Starved::start("starved", &route(&[&back], settings));
    let mut idle = starved.fill();
    // The first ones may still get a descriptor.
    let mut served = Vec::new();
    let refused = idle.iter_mut().find_map(|client| {
        client.write(GET);
        let (before, mut is_refused) = (served.len(), false);
        tidegate_testkit::until("it is passed on or refused", || {
            served.extend(back.try_accept());
            is_refused = client.0.wait_readable(Duration::ZERO);
            is_refused || served.len() > before
        });
        is_refused.then(|| client.message())
    });
    let refused = refused.unwrap();
    assert_eq!(refused.status(), "503");
    let reason = refused.field("Tidegate-Refused");
    assert_eq!(reason, Some("descriptors shop"), "{refused:?}");
    let line = starved.logs("descriptors");
    has(&line, ["\"outcome\":\"refused\"", "\"attempts\":1,"]);
}
