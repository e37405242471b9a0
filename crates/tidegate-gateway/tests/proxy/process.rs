//! The program `tidegate run`: its output, its signals, its status.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use tidegate_testkit::{Folder, begins, has, lacks};

use crate::hung::Manager;
use crate::steps::{output, spawn};
use crate::*;

/// A running gateway with its file.
pub(crate) struct Program {
    child: Child,
    out: BufReader<ChildStderr>,
    pub(crate) file: PathBuf,
}

impl Program {
    pub(crate) fn start(name: &str, text: &str) -> Self {
        Self::start_with(name, text, |_| ())
    }

    pub(crate) fn start_with(name: &str, text: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let file =
            std::env::temp_dir().join(format!("tidegate-{name}-{}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg(&file);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        prepare(&mut command);
        let mut child = spawn(&mut command);
        let out = BufReader::new(child.stderr.take().unwrap());
        Self { child, out, file }
    }

    /// Returns the next message. Reports begin with their time, and are left out.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let line = self.any_line();
            let is_report = line.starts_with(|c: char| c.is_ascii_digit());
            if !is_report {
                return line;
            }
        }
    }

    /// Reads standard error up to its end.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Returns the next report with this text. A busy machine may add reports of stalls before it.
    fn report(&mut self, text: &str) -> String {
        loop {
            let line = self.any_line();
            assert!(!line.is_empty(), "the program has ended");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Replaces its file in one step: the program may look at it at any moment.
    pub(crate) fn rewrite(&self, text: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }

    /// Returns its standard input, which is a pipe.
    pub(crate) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Returns the next line on standard error, also that of a report.
    pub(crate) fn any_line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the address of its only listener.
    pub(crate) fn address(&mut self) -> String {
        let line = self.line();
        let address = line.strip_prefix("http listens on ");
        address.unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// Returns the address of its listener for operators, which is the second one.
    pub(crate) fn admin(&mut self) -> String {
        let line = self.line();
        let address = line.strip_prefix("admin listens on ");
        address.unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// Connects to its only listener.
    fn client(&mut self) -> Peer {
        connect_to(self.address())
    }

    /// Sends a request to its only listener.
    pub(crate) fn send(&mut self, request: &str) -> Peer {
        let mut client = self.client();
        client.write(request);
        client
    }

    /// Reads up to the last message, with which the program ends.
    #[track_caller]
    fn ended(&mut self) {
        while !self.line().starts_with("ended") {}
        assert_eq!(self.status(), Some(0));
    }

    /// Ends the program and reads what it says.
    pub(crate) fn end(&mut self) -> String {
        self.signal("TERM");
        let said = self.rest();
        assert_eq!(self.status(), Some(0), "{said}");
        said
    }

    /// Fills the pipe of standard error, which nobody reads from now on.
    fn fill_output(&self) {
        /// `O_NONBLOCK`
        const AT_ONCE: i32 = 0o4000;
        let pipe = format!("/proc/self/fd/{}", self.out.get_ref().as_raw_fd());
        let mut pipe = std::fs::File::options()
            .write(true)
            .custom_flags(AT_ONCE)
            .open(pipe)
            .unwrap();
        for piece in [4096, 1] {
            while pipe.write(&vec![b'x'; piece]).is_ok() {}
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let killed = output(Command::new("sh").args(["-c", &kill]));
        assert!(killed.status.success());
    }

    /// Returns `true` if the program handles SIGTERM and SIGINT.
    fn handles_signals(&self) -> bool {
        const BOTH: u64 = 1 << 14 | 1 << 1;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        caught & BOTH == BOTH
    }

    pub(crate) fn status(&mut self) -> Option<i32> {
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

/// A file that is removed at the end.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    pub(crate) fn new(name: &str) -> Self {
        let file = format!("tidegate-{name}-{}.log", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    /// Returns the section of a configuration that writes the log here.
    pub(crate) fn section(&self) -> String {
        format!("[log]\nfile = {:?}\n", self.0)
    }

    /// Returns how many lines there are, and how many of them are about a request that was cut.
    pub(crate) fn lines(&self) -> (usize, usize) {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let cut = text.matches("\"reason\":\"closing\"").count();
        (text.lines().count(), cut)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn text(back: &Upstream, drain: &str) -> String {
    format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[drain]\n{drain}\n{}",
        route(&[back], "timeout = \"60s\"")
    )
}

#[test]
fn a_server_that_cannot_be_reached_is_reported_with_the_cause() {
    let gone = Upstream::on_socket();
    let text = text(&gone, "");
    let _port = gone.stop();
    let mut program = Program::start("unreachable", &text);
    let mut client = program.send(GET);
    let response = client.failure("connect shop");
    assert!(response.field("x-request-id").is_some(), "{response:?}");
    let report = program.report("upstream.back: ");
    has(&report, ["refused"]);
}

/// A proxy in front that is missing in `trust` would be found out by nothing else.
#[test]
fn fields_that_only_a_trusted_peer_may_set_are_reported_once() {
    let back = Upstream::on_socket();
    let trust = "trust = [\"127.0.0.0/8\"]\n";
    for (trust, field, expected) in [
        ("", "X-Forwarded-For: 1.2.3.4-marker\r\n", 1),
        ("", "X-Own: 1\r\n", 0),
        (trust, "X-Forwarded-For: 1.2.3.4\r\n", 0),
    ] {
        let text = format!(
            "[listen.http]\nat = \"127.0.0.1:0\"\n{trust}[drain]\nannounce = \"0s\"\n{}",
            route(&[&back], "")
        );
        let mut program = Program::start("claims", &text);
        let mut client = program.client();
        let request = GET.replace("\r\n\r\n", &format!("\r\n{field}\r\n"));
        for _ in 0..2 {
            client.write(&request);
            back.accept().serve(OK_CLOSE);
            assert_eq!(client.message().status(), "200");
        }
        let said = program.end();
        let reports = said.matches("removed fields of 127.0.0.1 that only a peer in `trust`");
        assert_eq!(reports.count(), expected, "{field}\n{said}");
        lacks(&said, ["marker"]);
    }
}

/// The client leaves and the server agrees to another protocol in one turn of the loop.
#[test]
fn what_comes_for_a_request_that_has_ended_is_not_reported() {
    let back = Upstream::on_socket();
    let text = text(&back, "announce = \"0s\"");
    let text = format!("{text}tunnel = {{ protocols = \"x\" }}\n");
    let mut program = Program::start("ended", &text);
    let client =
        program.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    let mut server = back.accept_asked();
    program.signal("STOP");
    drop(client);
    server.write("HTTP/1.1 101 Other\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    program.signal("CONT");
    assert_eq!(server.rest(), "");
    let said = program.end();
    lacks(&said, ["changed the protocol"]);
}

#[test]
fn a_change_to_no_protocol_is_reported_as_such() {
    let back = Upstream::on_socket();
    let text = text(&back, "") + "tunnel = { protocols = \"x\" }\n";
    let mut program = Program::start("unnamed", &text);
    let mut client =
        program.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    back.accept()
        .serve("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n");
    client.failure("bad_response shop");
    let report = program.report("upstream.back: ");
    has(&report, ["without a field `Upgrade`"]);
}

#[test]
fn a_reader_that_has_stopped_does_not_delay_the_end() {
    let back = Upstream::on_socket();
    let mut program = Program::start("unread", &text(&back, "announce = \"0s\""));
    program.address();
    program.fill_output();
    for signal in ["HUP", "USR1", "TERM"] {
        program.signal(signal);
    }
    assert_eq!(program.status(), Some(0));
}

#[test]
fn a_signal_finishes_the_requests_and_the_status_is_0() {
    for signal in ["TERM", "INT"] {
        let back = Upstream::on_socket();
        let name = format!("drain-{signal}");
        let mut program = Program::start(&name, &text(&back, "announce = \"0s\""));
        let mut client = program.send(GET);
        let mut server = back.accept_asked();
        program.signal(signal);
        let said = format!("SIG{signal} received: announces the end, then finishes requests");
        assert_eq!(program.line(), said);
        server.answer(&mut client);
        // The response may have left before the drain counts the connections.
        let last = program.line();
        begins(&last, "ended; connections that were open: ");
        assert!(last.ends_with(", cut at the deadline: 0"), "{last}");
        assert_eq!(program.status(), Some(0), "{signal}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT")] {
        let back = Upstream::on_socket();
        let name = format!("twice-{first}-{second}");
        let log = LogFile::new(&name);
        let text = text(&back, "announce = \"60s\"") + &log.section();
        let mut program = Program::start(&name, &text);
        let _client = program.send(GET);
        let _server = back.accept_asked();
        program.signal(first);
        begins(program.line(), format!("SIG{first} received: "));
        program.signal(second);
        begins(program.line(), format!("SIG{second} received again"));
        lacks(program.rest(), ["WARN"]);
        assert_eq!(program.status(), Some(1));
        assert_eq!(log.lines(), (1, 1), "the request has its line");
    }
}

#[test]
fn the_summary_is_the_last_line_and_each_request_has_its_line_before() {
    let (back, log) = (Upstream::on_socket(), LogFile::new("summary"));
    let text = text(&back, "announce = \"0s\"\ndeadline = \"1ms\"") + &log.section();
    let mut program = Program::start("summary", &text);
    let address = program.address();
    let clients = [(); 20].map(|()| {
        let mut client = connect_to(&address);
        client.write(GET);
        (client, back.accept_asked())
    });
    program.signal("TERM");
    while !program.line().starts_with("ended") {}
    assert_eq!(log.lines(), (clients.len(), clients.len()));
    assert_eq!(program.rest(), "", "nothing follows the summary");
    assert_eq!(program.status(), Some(0));
}

#[test]
fn a_hangup_reads_the_file_again_and_a_wrong_one_changes_nothing() {
    let (one, two) = (Upstream::on_socket(), Upstream::on_socket());
    let mut program = Program::start("reload", &text(&one, "announce = \"0s\""));
    let mut client = program.send(GET);
    one.accept().serve_ok(&mut client);
    program.rewrite(&text(&two, "announce = \"0s\""));
    program.signal("HUP");
    assert_eq!(program.line(), "reloaded");
    client.write(GET);
    two.accept().serve_ok(&mut client);
    program.rewrite(&text(&one, "anounce = \"0s\""));
    program.signal("HUP");
    let mut said = String::new();
    while !said.contains("not reloaded") {
        said = format!("{said}{}\n", program.line());
    }
    has(&said, ["anounce", "announce"]);
    program.signal("TERM");
    program.ended();
}

#[test]
fn a_port_in_use_is_one_sentence_that_says_what_to_do_and_status_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let rest = "[route.r]\nrespond = 200\n";
    let http = format!("[listen]\nhttp = \"{address}\"\n{rest}");
    let admin =
        format!("[listen]\nhttp = \"127.0.0.1:0\"\n[listen.admin]\nat = \"{address}\"\n{rest}");
    for (name, text) in [("http", http), ("admin.at", admin)] {
        let mut program = Program::start(name, &text);
        let line = program.line();
        begins(
            &line,
            format!("listen.{name}: cannot listen on {address}: "),
        );
        assert!(line.ends_with("or set another address"), "{line}");
        assert_eq!(program.status(), Some(1));
    }
}

/// One change, which waits for real time: `operates` has the others on a manual clock.
#[test]
fn a_file_that_changes_is_read_again() {
    let (one, two) = (Upstream::on_socket(), Upstream::on_socket());
    let settings = "announce = \"0s\"\n[reload]\nsettle = \"0s\"";
    let mut program = Program::start("watch", &text(&one, settings));
    let address = program.address();
    program.rewrite(&text(&two, settings));
    assert_eq!(program.line(), "reloaded");
    let mut client = connect_to(address);
    client.write(GET);
    two.accept().serve_ok(&mut client);
}

#[test]
fn the_access_log_is_opened_again_on_a_signal() {
    let folder = Folder::new("log");
    let (log, moved) = (folder.join("access.log"), folder.join("access.log.1"));
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n[log]\nfile = {log:?}\n\
         [drain]\nannounce = \"0s\"\n"
    );
    let mut program = Program::start("log", &text);
    let address = program.address();
    let ask = |path: &str| {
        let mut client = connect_to(&address);
        client.write(&GET.replace("/a", path));
        assert_eq!(client.message().status(), "200");
    };
    let lines = |file: &PathBuf| std::fs::read_to_string(file).unwrap_or_default();
    ask("/first");
    tidegate_testkit::until("the line is written", || lines(&log).contains("/first"));
    std::fs::rename(&log, &moved).unwrap();
    program.signal("USR1");
    assert_eq!(program.line(), "the access log is opened again");
    tidegate_testkit::until("the file is there again", || log.exists());
    ask("/second");
    program.signal("TERM");
    program.ended();
    // The last lines are written before the end.
    assert!(lines(&log).contains("/second"));
    assert!(!lines(&moved).contains("/second"));
}

/// The disk is full from the start. A device takes its place, which nothing removes.
#[test]
fn a_full_disk_loses_lines_and_no_request() {
    const REQUESTS: usize = 20;
    let text = "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
                [route.r]\nrespond = 200\n[log]\nfile = \"/dev/full\"\n\
                [drain]\nannounce = \"0s\"\n";
    let mut program = Program::start("full", text);
    let address = program.address();
    let admin = program.admin();
    let mut client = connect_to(&address);
    for _ in 0..REQUESTS {
        client.write(GET);
        assert_eq!(client.message().status(), "200");
    }
    let count = |metrics: &str, result: &str| {
        let name = format!("tidegate_access_log_lines_total{{result=\"{result}\"}} ");
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok())
    };
    let metrics = tidegate_testkit::until_some("the lines are counted", || {
        let mut peer = connect_to(&admin);
        peer.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let metrics = peer.message().body;
        (count(&metrics, "lost")? >= REQUESTS).then_some(metrics)
    });
    assert_eq!(count(&metrics, "lost"), Some(REQUESTS));
    assert_eq!(count(&metrics, "written"), Some(0));
    let said = program.end();
    // One in a second: a slow machine may see another one.
    has(
        &said,
        ["the access log cannot be written: ", "lines are lost"],
    );
}

#[test]
fn the_service_manager_learns_each_state() {
    let manager = Manager::new("states");
    let back = Upstream::on_socket();
    let mut program = Program::start_with("notify", &text(&back, "announce = \"0s\""), |command| {
        command.env("NOTIFY_SOCKET", manager.path());
    });
    assert_eq!(manager.received(), "READY=1");
    program.signal("HUP");
    manager.is_reloading();
    assert_eq!(manager.received(), "READY=1");
    program.signal("TERM");
    assert_eq!(manager.received(), "STOPPING=1");
    while !program.line().starts_with("ended") {}
}

#[test]
fn operators_reach_the_program_and_their_changes_are_reported() {
    let back = Upstream::on_socket();
    let text = text(&back, "announce = \"60s\"").replace(
        "[drain]",
        "[listen.admin]\nat = \"127.0.0.1:0\"\ntoken = \"${TIDEGATE_TEST_TOKEN}\"\n[drain]",
    );
    let mut program = Program::start_with("admin", &text, |command| {
        command.env("TIDEGATE_TEST_TOKEN", "marker-token");
    });
    program.address();
    let admin = program.admin();
    let ask = |line: &str| {
        let mut peer = connect_to(&admin);
        let token = "Authorization: Bearer marker-token\r\nContent-Length: 0\r\n";
        peer.write(&format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n"
        ));
        peer.message()
    };
    assert_eq!(ask("GET /ready").status(), "200");
    assert_eq!(ask("POST /api/breakers/shop/open").status(), "200");
    let report = program.report(" INFO breaker of ");
    has(&report, [": forced open origin=\"admin 127.0.0.1:"]);
    assert_eq!(ask("POST /api/reload").status(), "200");
    assert!(ask("GET /api/events").body.contains("\"what\":\"reload\""));
    program.signal("TERM");
    assert!(program.line().starts_with("SIGTERM"));
    assert_eq!(ask("GET /ready").status(), "503");
    assert_eq!(ask("GET /live").status(), "200");
    program.signal("TERM");
    assert_eq!(program.status(), Some(1));
}

/// Each is reported, without the token.
#[test]
fn a_wrong_token_and_a_peer_that_may_not_send_the_proxy_protocol_are_reported() {
    let text = "[listen]\nhttp = { at = \"127.0.0.1:0\", proxy_protocol = true, trust = [\"10.0.0.0/8\"] }\n\
                [listen.admin]\nat = \"127.0.0.1:0\"\ntoken = \"${TOKEN}\"\n\
                [drain]\nannounce = \"0s\"\n[route.r]\nrespond = 200\n";
    let mut program = Program::start_with("reported", text, |command| {
        command.env("TOKEN", "full-token");
    });
    let http = program.address();
    let admin = program.admin();
    // A request without a token is another kind of report.
    for token in ["", "Authorization: Bearer wrong-marker\r\n"] {
        let mut client = connect_to(&admin);
        client.write(&format!(
            "POST /api/reload HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.message().status(), "401");
    }
    let mut client = connect_to(http);
    assert_eq!(client.rest(), "");
    let said = program.end();
    has(
        &said,
        [
            "a token is needed",
            "127.0.0.1 to the admin listener was refused: the token is wrong",
            "listen.http: closed a connection of 127.0.0.1: it is not in `trust`",
        ],
    );
    lacks(&said, ["marker"]);
}

#[test]
fn a_signal_ends_a_start_that_waits() {
    for signal in ["TERM", "INT"] {
        let text = "include = \"/dev/stdin\"\n[listen]\nhttp = \"127.0.0.1:0\"\n[route.r]\nrespond = 200\n";
        let mut program = Program::start_with("waits", text, |command| {
            command.stdin(Stdio::piped());
        });
        let input = program.input();
        // Before they are handled, they would end the program in another way.
        tidegate_testkit::until("signals are handled", || program.handles_signals());
        program.signal(signal);
        assert_eq!(
            program.rest(),
            format!("SIG{signal} received: ends before the start\nended\n")
        );
        assert_eq!(program.status(), Some(0));
        drop(input);
    }
}

#[test]
fn a_signal_that_comes_while_the_listeners_open_drains_and_removes_their_paths() {
    const LISTENERS: usize = 20;
    let folder = Folder::new("opens");
    for round in 0..5 {
        let path = |n: usize| folder.join(format!("{n}.sock"));
        let listen: Vec<_> = (0..LISTENERS)
            .map(|n| format!("l{n} = \"unix:{}\"\n", path(n).display()))
            .collect();
        let text = format!(
            "[listen]\n{}[drain]\nannounce = \"0s\"\n[route.r]\nrespond = 200\n",
            listen.concat()
        );
        let mut program = Program::start("opens", &text);
        let first = path(round * 4);
        let mut client =
            tidegate_testkit::until_some("it listens", || UnixStream::connect(&first).ok());
        program.signal("TERM");
        client.write_all(GET.as_bytes()).unwrap();
        let mut got = String::new();
        client.read_to_string(&mut got).unwrap();
        assert!(got.starts_with("HTTP/1.1 200 "), "{round}: {got}");
        let said = program.rest();
        assert_eq!(program.status(), Some(0), "{round}: {said}");
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, 0, "{round}: {said}");
    }
}
