//! Requests at a fixed rate, whether earlier ones have ended or not: an open loop. A wait begins when
//! its request was due, so that a stall counts for every request that it delays.
//!
//! A connection has one request at a time, and is replaced after some. A request without an idle
//! connection opens a new one. A client that waits too long leaves.
//!
//! A hypervisor that takes the CPUs away delays every request of that moment, whatever the gateway
//! does. The run notes the seconds in which that happened.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::client::parse;
use crate::machine::stolen_time;
use crate::waits::Waits;

/// After how long a client leaves.
const PATIENCE: Duration = Duration::from_secs(2);
/// The requests of a connection.
const LIFE: u32 = 10;
/// The most connections of a run. A request that would need one more is lost.
const MOST: usize = 8_000;

/// What is asked for, and how often in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) path: &'static str,
    pub(super) rate: f64,
}

/// What became of the requests of a stream.
#[derive(Debug)]
pub(super) struct Result {
    pub(super) ok: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Without a response.
    pub(super) lost: u64,
    /// The waits of the successes of each second. The last one has also those that came later.
    pub(super) seconds: Vec<Waits>,
}

/// A run: what became of its requests, by stream, and its seconds.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) results: Vec<Result>,
    /// For each second whether the hypervisor left the CPUs to this machine.
    pub(super) undisturbed: Vec<bool>,
}

struct Connection {
    socket: TcpStream,
    stream: usize,
    /// When the request was due; `None` while the connection is idle.
    due: Option<Instant>,
    sent: bool,
    received: Vec<u8>,
    uses: u32,
}

/// A run in progress.
struct Run<'a> {
    to: SocketAddr,
    streams: &'a [Stream],
    poll: Poll,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Idle connections of each stream.
    idle: Vec<Vec<usize>>,
    results: Vec<Result>,
    /// The stolen time at the beginning of each second so far.
    stolen: Vec<Duration>,
    began: Instant,
}

/// Sends all streams for this time.
pub(super) fn run(to: SocketAddr, streams: &[Stream], time: Duration) -> io::Result<Outcome> {
    let seconds = usize::try_from(time.as_secs()).unwrap_or(0).max(1);
    let result = |_: &Stream| Result {
        ok: 0,
        refused: 0,
        failed: 0,
        lost: 0,
        seconds: vec![Waits::new(); seconds],
    };
    let mut run = Run {
        to,
        streams,
        poll: Poll::new()?,
        connections: Vec::new(),
        free: Vec::new(),
        idle: vec![Vec::new(); streams.len()],
        results: streams.iter().map(result).collect(),
        stolen: Vec::with_capacity(seconds + 1),
        began: Instant::now(),
    };
    run.drive(time)?;
    run.stolen.truncate(seconds);
    run.stolen.push(stolen_time());
    Ok(Outcome {
        results: run.results,
        undisturbed: equal_neighbours(&run.stolen),
    })
}

/// Returns for each value but the last whether the next one is the same.
fn equal_neighbours(values: &[Duration]) -> Vec<bool> {
    values.windows(2).map(|two| two[0] == two[1]).collect()
}

impl Result {
    /// Returns the waits of all successes.
    pub(super) fn waits(&self) -> Waits {
        let mut all = Waits::new();
        self.seconds.iter().for_each(|second| all.add_all(second));
        all
    }
}

impl Run<'_> {
    fn drive(&mut self, time: Duration) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut sent = vec![0_u32; self.streams.len()];
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            if (now - self.began).as_secs() >= self.stolen.len() as u64 {
                self.stolen.push(stolen_time());
            }
            let mut next = Duration::from_millis(20);
            for (stream, sent) in sent.iter_mut().enumerate() {
                let every = Duration::from_secs_f64(1.0 / self.streams[stream].rate);
                while self.began + every * *sent <= now && every * *sent < time {
                    self.begin(stream, self.began + every * *sent);
                    *sent += 1;
                }
                next = next.min((self.began + every * *sent).saturating_duration_since(now));
            }
            if looked.elapsed() > PATIENCE / 20 {
                looked = now;
                self.leave(now);
            }
            let busy = self
                .connections
                .iter()
                .flatten()
                .any(|one| one.due.is_some());
            if self.began.elapsed() > time && !busy {
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(next)) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                self.advance(event.token().0);
            }
        }
    }

    /// Begins a request of a stream.
    fn begin(&mut self, stream: usize, due: Instant) {
        let place = match self.idle[stream].pop() {
            Some(place) => Ok(place),
            None => self.open(stream),
        };
        match place {
            Ok(place) => {
                if let Some(connection) = &mut self.connections[place] {
                    connection.due = Some(due);
                    connection.sent = false;
                }
                self.advance(place);
            }
            Err(_) => self.results[stream].lost += 1,
        }
    }

    fn open(&mut self, stream: usize) -> io::Result<usize> {
        if self.connections.len() - self.free.len() >= MOST {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut socket = TcpStream::connect(self.to)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let both = Interest::READABLE | Interest::WRITABLE;
        let watched = self
            .poll
            .registry()
            .register(&mut socket, Token(place), both);
        if let Err(why) = watched {
            self.free.push(place);
            return Err(why);
        }
        self.connections[place] = Some(Connection {
            socket,
            stream,
            due: None,
            sent: false,
            received: Vec::new(),
            uses: 0,
        });
        Ok(place)
    }

    /// Goes on with the request of a connection.
    fn advance(&mut self, place: usize) {
        let Some(connection) = self.connections[place].as_mut() else {
            return;
        };
        let stream = connection.stream;
        match connection.step(self.streams[stream].path) {
            Ok(None) => {}
            Ok(Some((status, closes))) => {
                let due = connection.due.take();
                let ends = closes || connection.uses >= LIFE;
                self.count(stream, status, due);
                match ends {
                    true => self.close(place),
                    false => self.idle[stream].push(place),
                }
            }
            Err(_) => {
                if connection.due.is_some() {
                    self.results[stream].lost += 1;
                } else {
                    self.idle[stream].retain(|idle| *idle != place);
                }
                self.close(place);
            }
        }
    }

    fn count(&mut self, stream: usize, status: u16, due: Option<Instant>) {
        let result = &mut self.results[stream];
        match status {
            200 => {
                result.ok += 1;
                let second = self.began.elapsed().as_secs();
                let second = usize::try_from(second).unwrap_or(usize::MAX);
                let second = second.min(result.seconds.len() - 1);
                result.seconds[second].add(due.map_or(Duration::ZERO, |due| due.elapsed()));
            }
            503 => result.refused += 1,
            _ => result.failed += 1,
        }
    }

    /// Ends the connections of clients that have waited too long.
    fn leave(&mut self, now: Instant) {
        for place in 0..self.connections.len() {
            let waiting = self.connections[place].as_ref();
            let due = waiting.and_then(|one| Some((one.stream, one.due?)));
            if let Some((stream, due)) = due
                && now.saturating_duration_since(due) > PATIENCE
            {
                self.results[stream].lost += 1;
                self.close(place);
            }
        }
    }

    fn close(&mut self, place: usize) {
        self.connections[place] = None;
        self.free.push(place);
    }
}

impl Connection {
    /// Sends and receives what is possible. Returns the status of a complete response, and whether
    /// the connection ends with it.
    fn step(&mut self, path: &str) -> io::Result<Option<(u16, bool)>> {
        if self.due.is_some() && !self.sent {
            let request = format!("GET {path} HTTP/1.1\r\nHost: proof\r\n\r\n");
            match self.socket.write(request.as_bytes()) {
                Ok(count) if count == request.len() => {
                    self.sent = true;
                    self.uses += 1;
                }
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(why) if is_early(&why) => return Ok(None),
                Err(why) => return Err(why),
            }
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(why) if is_early(&why) => break,
                Err(why) => return Err(why),
            }
        }
        let Some((length, reply)) = parse(&self.received) else {
            return Ok(None);
        };
        if self.received.len() < length? {
            return Ok(None);
        }
        self.received.clear();
        Ok(Some((reply.status, reply.closes)))
    }
}

/// Returns `true` if the socket is not connected yet, or cannot go on now.
fn is_early(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::equal_neighbours;

    #[test]
    fn a_second_is_disturbed_if_time_was_stolen_before_the_next_one() {
        let stolen = [5, 5, 7, 7].map(Duration::from_millis);
        assert_eq!(equal_neighbours(&stolen), [true, false, true]);
    }
}
