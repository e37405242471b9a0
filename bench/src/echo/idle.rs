//! The cost of an idle connection: resident memory of a server in a process of its own.
//!
//! The server is this program again with the option `--serve SERVER`. Another child, `--idle "hold
//! ADDRESS FIRST COUNT"`, opens the connections and exchanges one message on each, so that each was
//! used once. Where the limit on descriptors does not allow so many connections in one process, they
//! are spread over several servers, each with a holder of its own. The result is then the sum of the
//! servers' resident memory minus that of the empty servers.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::MESSAGE;
use crate::child::ChildProcess;
use crate::exchange::{REQUEST, exchange};
use crate::load::Load;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;
use crate::served::{ServerProcess, raise_limit};

/// The maximum number of connections of a table.
const MOST: usize = 50_000;
/// Number of descriptors for other purposes.
const OTHERS: usize = 200;
/// The line that a holder prints when it has its connections.
const HELD: &str = "held";
/// Maximum number of connections from one source address, which has some 28,000 ports.
const FROM_ONE: usize = 10_000;

/// A comparison of the memory of idle connections.
pub(crate) struct IdleRace {
    /// The beginning of the title.
    pub(crate) title: &'static str,
    /// The servers: name in the table, name on the command line.
    pub(crate) servers: &'static [(&'static str, &'static str, Role)],
    /// The ratios and the rows that they compare with.
    pub(crate) ratios: &'static [(&'static str, Role)],
    /// Connections, with and without `--quick`, where the limit on descriptors allows as many.
    pub(crate) connections: (usize, usize),
    /// What each connection exchanges before it is idle.
    pub(crate) exchange: Exchange,
}

/// Servers that echo.
pub(super) const ECHO: IdleRace = IdleRace {
    title: "echo, idle",
    servers: &[
        ("ours, 1 handler", "ours", Role::Ours),
        ("tokio, 4 KiB buffer", "tokio", Role::Peer),
        ("tokio, readable()", "tokio-bare", Role::Inline),
    ],
    ratios: &[
        ("idle_memory_over_tokio", Role::Peer),
        ("idle_memory_over_tokio_bare", Role::Inline),
    ],
    connections: (10_000, MOST),
    exchange: Exchange::Echo,
};

/// What a connection exchanges once, so that it was used.
#[derive(Clone, Copy)]
pub(crate) enum Exchange {
    Echo,
    Http,
}

impl Exchange {
    /// Returns the command of the child that holds connections.
    fn holder(self) -> &'static str {
        match self {
            Self::Echo => "hold",
            Self::Http => "hold-http",
        }
    }

    fn run(self, stream: &mut TcpStream) -> io::Result<()> {
        match self {
            Self::Echo => {
                let mut message = [b'x'; MESSAGE];
                stream.write_all(&message)?;
                stream.read_exact(&mut message)
            }
            Self::Http => exchange(stream, REQUEST).map(drop),
        }
    }
}

/// Measures each server in turn. If that fails, prints the reason and returns `None`.
pub(crate) fn run(settings: &Settings, race: &IdleRace) -> Option<Table> {
    let (few, many) = race.connections;
    let wanted = if settings.quick { few } else { many };
    let spread = Spread::of(wanted, raise_limit());
    let title = format!("{}: {spread}", race.title);
    if !settings.wants_table(&title) {
        return None;
    }
    eprintln!("  {spread}");
    let mut rows = Vec::new();
    for &(name, argument, role) in race.servers {
        let repeats = if settings.quick { 1 } else { 3 };
        let measure = |_| measure(argument, &spread, race.exchange);
        let samples: Result<Vec<Sample>, String> = (0..repeats).map(measure).collect();
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
    Some(Table {
        heading: Heading {
            title,
            unit: "resident bytes/connection",
            better: Better::Less,
            side: Some("empty server KiB"),
            ratios: race
                .ratios
                .iter()
                .map(|&(name, against)| Ratio::new(name, against))
                .collect(),
        },
        rows,
        others: None,
    })
}

/// The number of connections and of the server processes that share them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) connections: usize,
    processes: usize,
}

impl Spread {
    /// Uses as few processes as `limit` descriptors per process allow.
    pub(crate) fn of(connections: usize, limit: usize) -> Self {
        let each = limit.saturating_sub(OTHERS).max(1);
        Self {
            connections,
            processes: connections.div_ceil(each),
        }
    }

    /// Returns the first connection and the number of connections of each process.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (usize, usize)> {
        let begin = |at: usize| self.connections * at / self.processes;
        (0..self.processes).map(move |at| (begin(at), begin(at + 1) - begin(at)))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections", self.connections)?;
        match self.processes {
            1 => Ok(()),
            more => write!(f, " over {more} processes"),
        }
    }
}

/// Runs as a child: holds connections, or generates load.
pub(crate) fn child(server: &str) -> ExitCode {
    raise_limit();
    for exchange in [Exchange::Echo, Exchange::Http] {
        let what = server.strip_prefix(exchange.holder());
        if let Some(what) = what.and_then(|rest| rest.strip_prefix(' ')) {
            return hold(what, exchange);
        }
    }
    if let Some(what) = server.strip_prefix("load ") {
        return load(what);
    }
    eprintln!("{server:?} is neither `hold` nor `load`");
    ExitCode::from(2)
}

/// Parses an address and two numbers.
fn parse(what: &str) -> Option<(SocketAddr, usize, usize)> {
    let mut words = what.split(' ');
    let address = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse().ok();
    Some((address, number()?, number()?))
}

/// Sends a number of messages over a number of connections, one at a time on each, and prints how
/// many came back.
fn load(what: &str) -> ExitCode {
    let Some((address, connections, messages)) = parse(what) else {
        eprintln!("{what:?} is not an address and two numbers");
        return ExitCode::from(2);
    };
    let mut load = Load::connect(address, connections, MESSAGE);
    println!("{}", load.run(messages as u64).messages);
    ExitCode::SUCCESS
}

/// Runs the child that holds the connections: prints that they are open, or the error, and keeps
/// them until its input ends.
fn hold(what: &str, exchange: Exchange) -> ExitCode {
    let Some((address, first, count)) = parse(what) else {
        eprintln!("{what:?} is not an address and two numbers");
        return ExitCode::from(2);
    };
    let held: Result<Vec<TcpStream>, String> = (first..first + count)
        .map(|at| connect(address, at, exchange))
        .collect();
    match &held {
        Ok(_) => println!("{HELD}"),
        Err(why) => println!("{why}"),
    }
    for _ in std::io::stdin().lines() {}
    ExitCode::SUCCESS
}

/// Starts a process that holds `count` connections to `address`.
pub(crate) fn start_holder(
    address: SocketAddr,
    (first, count): (usize, usize),
    exchange: Exchange,
) -> Result<ChildProcess, String> {
    let holder = exchange.holder();
    let command = format!("{holder} {address} {first} {count}");
    let mut holder = ChildProcess::start(&["--idle", &command])?;
    match holder.read_line()? {
        held if held == HELD => Ok(holder),
        why => Err(why),
    }
}

fn measure(argument: &str, spread: &Spread, exchange: Exchange) -> Result<Sample, String> {
    let (mut above, mut empty) = (0, 0);
    // All processes at the same time, as one server would have all connections.
    let mut partners = Vec::new();
    for share in spread.shares() {
        let mut server = ServerProcess::start(argument)?;
        // One connection warms the server up, so that one-time allocations do not count.
        let first = connect(server.address, 0, exchange)?;
        let before = server.resident()?;
        let holder = start_holder(server.address, share, exchange)?;
        above += server.resident()?.saturating_sub(before);
        empty = empty.max(before);
        partners.push((server, holder, first));
    }
    Ok(Sample {
        value: (above * 1024) as f64 / spread.connections as f64,
        side: Some(empty as f64),
    })
}

/// Connects from one of several loopback addresses and exchanges one message.
fn connect(to: SocketAddr, at: usize, exchange: Exchange) -> Result<TcpStream, String> {
    let failed =
        |what: &str, why: &dyn std::fmt::Display| format!("connection {at}: {what}: {why}");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .map_err(|why| failed("no socket", &why))?;
    let from = u8::try_from(2 + at / FROM_ONE).unwrap_or(1);
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, from), 0);
    // The connection ends with a reset, so that its port is free at once for the next server's.
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
        .map_err(|why| failed("no option", &why))?;
    rustix::net::bind(&socket, &from).map_err(|why| failed("no port", &why))?;
    rustix::net::connect(&socket, &to).map_err(|why| failed("refused", &why))?;
    let mut stream = TcpStream::from(socket);
    let exchanged = exchange.run(&mut stream);
    exchanged.map_err(|why| failed("no reply", &why))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn connections_are_spread_over_as_few_processes_as_the_limit_allows() {
        let spread = Spread::of(50_000, 20_000);
        assert_eq!(spread.to_string(), "50000 connections over 3 processes");
        let shares: Vec<_> = spread.shares().collect();
        assert_eq!(shares, [(0, 16_666), (16_666, 16_667), (33_333, 16_667)]);
        let one = Spread::of(10_000, 20_000);
        assert_eq!(one.to_string(), "10000 connections");
        assert_eq!(one.shares().collect::<Vec<_>>(), [(0, 10_000)]);
    }
}
