//! Reloads that wait for a disk: the program `tidegate run` does what signals ask for all the same.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};

use tidegate_testkit::{Folder, has};

use crate::process::Program;
use crate::*;

/// A program whose configuration includes its standard input from now on. The test holds the other end:
/// a reload waits until it is dropped.
struct Hung {
    program: Program,
    /// Its first listener, and the one for operators.
    addresses: [String; 2],
    hold: Option<ChildStdin>,
    manager: Manager,
}

/// The service manager, which the test plays.
pub(crate) struct Manager(UnixDatagram, Folder);

impl Manager {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("manager-{name}"));
        let socket = UnixDatagram::bind(folder.join("socket")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket, folder)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.1.join("socket")
    }

    pub(crate) fn received(&self) -> String {
        let mut message = [0; 64];
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    /// A reload has begun.
    pub(crate) fn is_reloading(&self) {
        let message = self.received();
        let at = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        let is_time = at.is_some_and(|at| at.parse::<u64>().is_ok_and(|at| at > 0));
        assert!(is_time, "{message}");
    }

    /// Returns `true` if there is no further message.
    fn is_empty(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        self.0.recv(&mut [0]).is_err()
    }
}

impl Hung {
    fn new(name: &str, drain: &str) -> Self {
        Self::at(name, drain, ["127.0.0.1:0"; 2])
    }

    /// Starts one with these addresses, for requests and for operators.
    fn at(name: &str, drain: &str, [http, admin]: [&str; 2]) -> Self {
        let text = format!(
            "[listen]\nhttp = \"{http}\"\nadmin = {{ at = \"{admin}\", token = \"${{TOKEN}}\" }}\n\
             [reload]\nwatch = false\n[drain]\n{drain}\n[route.r]\nrespond = 200\n"
        );
        let manager = Manager::new(name);
        let mut program = Program::start_with(name, &text, |command| {
            command.env("NOTIFY_SOCKET", manager.path());
            command.env("TOKEN", "full-token").stdin(Stdio::piped());
        });
        let address = program.address();
        let admin = program.admin();
        assert_eq!(manager.received(), "READY=1");
        program.rewrite(&format!("include = \"/dev/stdin\"\n{text}"));
        Self {
            hold: Some(program.input()),
            addresses: [address, admin],
            program,
            manager,
        }
    }

    /// Begins a reload that waits.
    fn hang_up(&mut self) {
        self.program.signal("HUP");
        self.manager.is_reloading();
    }

    /// The reload goes on, with another route.
    fn goes_on(&mut self) {
        let mut hold = self.hold.take().unwrap();
        let new = b"[route.new]\npath = \"/new\"\nrespond = 201\n";
        hold.write_all(new).unwrap();
    }

    /// Returns the status that the other route has, if there is one.
    fn asks_for_the_new_route(&self) -> String {
        let mut client = connect_to(&self.addresses[0]);
        client.write(&GET.replace("/a", "/new"));
        client.message().status().to_owned()
    }

    fn terminate(&mut self, says: &str) {
        self.program.signal("TERM");
        let line = self.program.line();
        has(&line, [says]);
    }

    /// Returns the lines up to the one with this text.
    fn lines_up_to(&mut self, text: &str) -> String {
        let mut said = String::new();
        loop {
            let line = self.program.line();
            said = format!("{said}{line}\n");
            if line.contains(text) {
                return said;
            }
            assert!(!line.is_empty(), "the program has ended: {said}");
        }
    }
}

#[test]
fn a_reload_that_waits_for_a_disk_does_not_delay_the_end() {
    let mut hung = Hung::new("hung", "announce = \"0s\"");
    hung.hang_up();
    hung.program.signal("HUP");
    hung.terminate("announces the end");
    assert_eq!(hung.manager.received(), "STOPPING=1");
    hung.lines_up_to("ended; ");
    assert_eq!(hung.program.status(), Some(0));
}

#[test]
fn the_paths_of_sockets_are_removed_at_the_end_although_a_reload_waits() {
    let folder = Folder::new("hung");
    let own = |name: &str| format!("unix:{}", folder.join(name).display());
    let (http, admin) = (own("http"), own("admin"));
    for (hangs, signals) in [(true, 1), (true, 2), (false, 1)] {
        let times = "announce = \"0s\"\ndeadline = \"0s\"";
        let times = if signals == 2 {
            "announce = \"60s\""
        } else {
            times
        };
        let mut hung = Hung::at("hung-paths", times, [&http, &admin]);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        if hangs {
            hung.hang_up();
        }
        for _ in 0..signals {
            hung.program.signal("TERM");
            hung.lines_up_to("SIGTERM");
        }
        assert_eq!(hung.program.status(), Some(i32::from(signals == 2)));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn a_second_signal_ends_at_once_while_a_reload_waits() {
    let mut hung = Hung::new("hung-twice", "announce = \"60s\"");
    hung.hang_up();
    hung.terminate("announces the end");
    hung.terminate("again: ends at once");
    assert_eq!(hung.program.status(), Some(1));
}

#[test]
fn a_reload_of_an_operator_that_waits_does_not_delay_the_end() {
    let mut hung = Hung::new("hung-api", "announce = \"0s\"");
    let mut operator = connect_to(&hung.addresses[1]);
    operator.write(
        "POST /api/reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer full-token\r\n\
         Content-Length: 0\r\n\r\n",
    );
    hung.manager.is_reloading();
    hung.terminate("announces the end");
    hung.lines_up_to("ended; ");
    assert_eq!(hung.program.status(), Some(0));
}

/// Also, the service manager does not learn that the program is ready, after it has learned of the end.
#[test]
fn a_reload_that_ends_after_the_drain_has_begun_changes_nothing() {
    let mut hung = Hung::new("hung-late", "announce = \"60s\"");
    hung.hang_up();
    hung.terminate("announces the end");
    assert_eq!(hung.manager.received(), "STOPPING=1");
    hung.goes_on();
    let said = hung.lines_up_to("not reloaded: the old configuration stays");
    has(&said, ["the gateway is ending"]);
    assert_eq!(hung.asks_for_the_new_route(), "200");
    hung.program.signal("TERM");
    assert_eq!(hung.program.status(), Some(1));
    assert!(hung.manager.is_empty());
}

#[test]
fn a_reload_goes_on_when_the_disk_responds() {
    let mut hung = Hung::new("hung-on", "announce = \"0s\"");
    hung.hang_up();
    hung.program.signal("USR1");
    assert_eq!(hung.program.line(), "the access log is opened again");
    hung.goes_on();
    assert_eq!(hung.program.line(), "reloaded");
    assert_eq!(hung.manager.received(), "READY=1");
    assert_eq!(hung.asks_for_the_new_route(), "201");
    hung.program.end();
}
