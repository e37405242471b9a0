//! The cost of a message in instructions, counted by `cargo xtask cost echo`.
//!
//! With the hidden option `--cost SERVER,ROUNDS` this program serves, and starts itself again with
//! `--client ADDRESS,ROUNDS`: 50 connections that all send a message and then all read the reply,
//! so that the server always finds a batch. Callgrind counts only the first process. The difference
//! between two numbers of rounds is the cost of the messages alone. For a roaming loop everything
//! in its process counts, including the monitor of its strategy.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;

use super::MESSAGE;
use super::servers::{self, Kind};
use crate::child;

const CONNECTIONS: usize = 50;

/// The servers by their names on the command line.
const SERVERS: [(&str, Kind); 7] = [
    ("ours", Kind::Ours { passing: 0 }),
    ("ours-5", Kind::Ours { passing: 5 }),
    ("ours-roaming", Kind::Roaming),
    ("raw", Kind::RawEpoll),
    ("mio", Kind::Mio),
    ("tokio", Kind::TokioCurrent),
    ("smol", Kind::Smol),
];

/// Serves until the client is done.
pub(crate) fn serve(what: &str) -> ExitCode {
    let Some((server, rounds)) = what.split_once(',') else {
        eprintln!("{what:?} is not SERVER,ROUNDS");
        return ExitCode::from(2);
    };
    let Some((_, kind)) = SERVERS.into_iter().find(|(name, _)| *name == server) else {
        eprintln!("there is no server {server:?}");
        return ExitCode::from(2);
    };
    let running = servers::start(kind);
    let client = format!("{},{rounds}", running.address);
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
    let parsed = what
        .split_once(',')
        .and_then(|(address, rounds)| Some((address, rounds.parse().ok()?)));
    let Some((address, rounds)): Option<(&str, u64)> = parsed else {
        eprintln!("{what:?} is not ADDRESS,ROUNDS");
        return ExitCode::from(2);
    };
    match exchange(address, rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("a connection broke: {why}");
            ExitCode::FAILURE
        }
    }
}

fn exchange(address: &str, rounds: u64) -> std::io::Result<()> {
    let connect = |_| {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(connect)
        .collect::<std::io::Result<_>>()?;
    let mut message = [b'x'; MESSAGE];
    for _ in 0..rounds {
        for mut stream in &streams {
            stream.write_all(&message)?;
        }
        for mut stream in &streams {
            stream.read_exact(&mut message)?;
        }
    }
    Ok(())
}
