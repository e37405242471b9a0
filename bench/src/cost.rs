//! The cost of a message in instructions, counted by `cargo xtask cost echo`, `cost http` and
//! `cost proxy`.
//!
//! With the hidden option `--cost SERVER,ROUNDS` this program serves, and starts itself again with
//! `--client ADDRESS,ROUNDS`: 50 connections that all send a message and then all read the reply,
//! so that the server always finds a batch. Callgrind counts only the first process. The difference
//! between two numbers of rounds is the cost of the messages alone. For a roaming loop everything
//! in its process counts, including the monitor of its strategy.
//!
//! With a depth after the rounds (`--cost SERVER,ROUNDS,DEPTH`), a message is that many HTTP
//! requests. A number after that is the number of connections.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;

use crate::exchange::exchange;
use crate::served::Running;
use crate::{child, echo, http};

const CONNECTIONS: usize = 50;

/// Serves until the client is done.
pub(crate) fn serve(what: &str, start: impl FnOnce(&str) -> Option<Running>) -> ExitCode {
    let Some((server, run)) = what.split_once(',') else {
        eprintln!("{what:?} is not SERVER,ROUNDS");
        return ExitCode::from(2);
    };
    let Some(running) = start(server) else {
        eprintln!("there is no server {server:?}");
        return ExitCode::from(2);
    };
    let client = format!("{},{run}", running.address);
    let mut again = child::command().expect("this program runs");
    let done = again.args(["--client", &client]).status();
    // Servers run until the process ends. Exit at once, so that their shutdown is not counted.
    std::process::exit(match done {
        Ok(status) if status.success() => 0,
        _ => 1,
    })
}

/// Runs the client: sends messages and reads the replies.
pub(crate) fn client(what: &str) -> ExitCode {
    let Some(plan) = parse(what) else {
        eprintln!("{what:?} is not ADDRESS,ROUNDS[,DEPTH[,CONNECTIONS]]");
        return ExitCode::from(2);
    };
    match run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("a connection broke: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What a client does.
struct Plan<'a> {
    address: &'a str,
    rounds: u64,
    /// The requests of a message, if they are requests.
    depth: Option<usize>,
    connections: usize,
}

fn parse(what: &str) -> Option<Plan<'_>> {
    let mut words = what.split(',');
    let (address, rounds) = (words.next()?, words.next()?.parse().ok()?);
    let depth = words.next().map(str::parse).transpose().ok()?;
    let connections = words.next().map(str::parse).transpose().ok()?;
    Some(Plan {
        address,
        rounds,
        depth,
        connections: connections.unwrap_or(CONNECTIONS),
    })
}

fn run(plan: &Plan<'_>) -> io::Result<()> {
    let connect = |_| {
        let stream = TcpStream::connect(plan.address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let streams = (0..plan.connections).map(connect);
    let mut streams: Vec<TcpStream> = streams.collect::<io::Result<_>>()?;
    let (message, reply) = match plan.depth {
        None => (vec![b'x'; echo::MESSAGE], echo::MESSAGE),
        Some(depth) => {
            let reply = exchange(&mut streams[0], http::REQUEST)?;
            (http::REQUEST.repeat(depth), reply * depth)
        }
    };
    let mut reply = vec![0; reply];
    for _ in 0..plan.rounds {
        for mut stream in &streams {
            stream.write_all(&message)?;
        }
        for mut stream in &streams {
            stream.read_exact(&mut reply)?;
        }
    }
    Ok(())
}
