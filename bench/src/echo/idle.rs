//! What an idle connection costs: resident memory of a server in a process of its own.
//!
//! The child is this program again with the hidden option `--idle SERVER`. It says its address, and then, for each line
//! that it reads, how much memory it has resident. The parent connects, lets each connection echo one message, so that it
//! is one that was used, and asks again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::MESSAGE;
use super::servers::{self, Kind};
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;

/// Connections, with and without `--quick`, where the limit on descriptors allows as many.
const CONNECTIONS: (usize, usize) = (10_000, 50_000);
/// Descriptors that are needed for something else.
const OTHERS: usize = 200;
/// Connections from one source address, which has some 28,000 ports.
const FROM_ONE: usize = 10_000;

/// The servers that are compared: name in the table, name on the command line.
const SERVERS: [(&str, &str, Role, Kind); 3] = [
    (
        "ours, 1 handler",
        "ours",
        Role::Ours,
        Kind::Ours { passing: 0 },
    ),
    (
        "tokio, 4 KiB buffer",
        "tokio",
        Role::Peer,
        Kind::TokioCurrent,
    ),
    (
        "tokio, readable()",
        "tokio-bare",
        Role::Inline,
        Kind::TokioBare,
    ),
];

/// Measures each server in turn; says so and answers nothing where that does not work.
pub(super) fn run(settings: &Settings) -> Option<Table> {
    let (few, many) = CONNECTIONS;
    let wanted = if settings.quick { few } else { many };
    let count = wanted.min(raise_limit().saturating_sub(OTHERS));
    let title = format!("echo, {count} idle connections");
    if !settings.wants_table(&title) {
        return None;
    }
    eprintln!("  {count} idle connections ({wanted} wanted)");
    let mut rows = Vec::new();
    for (name, argument, role, _) in SERVERS {
        let repeats = if settings.quick { 1 } else { 3 };
        let samples: Result<Vec<Sample>, String> =
            (0..repeats).map(|_| measure(argument, count)).collect();
        match samples {
            Ok(samples) => rows.push(Row {
                name: name.to_owned(),
                role,
                samples,
            }),
            Err(why) => {
                eprintln!("    {name} could not be measured: {why}");
                return None;
            }
        }
    }
    let ratio = |name: &str, against| Ratio {
        name: name.to_owned(),
        against,
    };
    Some(Table {
        heading: Heading {
            title,
            unit: "resident bytes/connection",
            better: Better::Less,
            side: Some("empty server KiB"),
            ratios: vec![
                ratio("idle_memory_over_tokio", Role::Peer),
                ratio("idle_memory_over_tokio_bare", Role::Inline),
            ],
        },
        rows,
        left_out: Vec::new(),
        others: None,
    })
}

/// The child: serves, and answers each line with its resident memory in KiB.
pub(crate) fn child(server: &str) -> ExitCode {
    raise_limit();
    let Some((.., kind)) = SERVERS
        .into_iter()
        .find(|(_, argument, ..)| *argument == server)
    else {
        eprintln!("there is no server {server:?}");
        return ExitCode::from(2);
    };
    let running = servers::start(kind, MESSAGE);
    println!("{}", running.address);
    for _ in std::io::stdin().lines() {
        match resident() {
            Some(kib) => println!("{kib}"),
            None => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}

/// A child process and the two ends of the conversation with it.
struct Server {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start(argument: &str) -> Result<(Self, SocketAddr), String> {
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let mut child = Command::new(program)
            .args(["--idle", argument])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("cannot start it: {why}"))?;
        let ask = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Self {
            child,
            ask,
            answers,
        };
        let address = server.answer()?;
        let address = address
            .parse()
            .map_err(|_| format!("{address:?} is no address"))?;
        Ok((server, address))
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|why| why.to_string())?;
        Ok(line.trim().to_owned())
    }

    fn resident(&mut self) -> Result<u64, String> {
        self.ask.write_all(b"\n").map_err(|why| why.to_string())?;
        let kib = self.answer()?;
        kib.parse()
            .map_err(|_| format!("{kib:?} is no amount of memory"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(argument: &str, count: usize) -> Result<Sample, String> {
    let (mut server, address) = Server::start(argument)?;
    // One connection warms the server up: what it needs once is not a connection's.
    let _first = connect(address, 0)?;
    let before = server.resident()?;
    let connections: Result<Vec<TcpStream>, String> =
        (0..count).map(|at| connect(address, at)).collect();
    let connections = connections?;
    let after = server.resident()?;
    drop(connections);
    Ok(Sample {
        value: (after.saturating_sub(before) * 1024) as f64 / count as f64,
        side: Some(before as f64),
    })
}

/// Connects from one of several loopback addresses and echoes one message.
fn connect(to: SocketAddr, at: usize) -> Result<TcpStream, String> {
    let failed =
        |what: &str, why: &dyn std::fmt::Display| format!("connection {at}: {what}: {why}");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .map_err(|why| failed("no socket", &why))?;
    let from = u8::try_from(2 + at / FROM_ONE).unwrap_or(1);
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, from), 0);
    // Ends with a reset, so that its port is free at once for the next server's.
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
        .map_err(|why| failed("no option", &why))?;
    rustix::net::bind(&socket, &from).map_err(|why| failed("no port", &why))?;
    rustix::net::connect(&socket, &to).map_err(|why| failed("refused", &why))?;
    let mut stream = TcpStream::from(socket);
    let mut message = [b'x'; MESSAGE];
    let sent = stream.write_all(&message);
    sent.map_err(|why| failed("not sent", &why))?;
    let echoed = stream.read_exact(&mut message);
    echoed.map_err(|why| failed("not echoed", &why))?;
    Ok(stream)
}

/// Raises the limit on descriptors as far as allowed; answers how many there may be.
fn raise_limit() -> usize {
    let now = getrlimit(Resource::Nofile);
    let most = CONNECTIONS.1 as u64 + 1_000;
    let higher = |current, maximum| Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    let maximum = now.maximum.unwrap_or(u64::MAX);
    // Who may raise the upper limit too does; others go up to it.
    let raised = setrlimit(
        Resource::Nofile,
        higher(most.max(maximum.min(most)), maximum.max(most)),
    );
    if raised.is_err() {
        let _ = setrlimit(Resource::Nofile, higher(maximum.min(most), maximum));
    }
    let current = getrlimit(Resource::Nofile).current;
    usize::try_from(current.unwrap_or(most)).unwrap_or(usize::MAX)
}

/// Resident memory of this process in KiB, counted page by page.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    resident_kib(&text)
}

fn resident_kib(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::resident_kib;

    #[test]
    fn the_resident_line_is_found_and_nothing_else() {
        let text =
            "5566-7788 ---p 00000000 00:00 0 [rollup]\nRss:                1844 kB\nPss:  540 kB\n";
        assert_eq!(resident_kib(text), Some(1844));
        assert_eq!(resident_kib("Pss: 1 kB\n"), None);
    }
}
