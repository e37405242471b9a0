//! The caller: a process of its own that sends messages when they fall due and records when the
//! replies arrive.
//!
//! The child is this program again with the hidden option `--caller`. For each line that it reads,
//! a [`Call`], it connects and prints `ready`. On the next line it sends the messages, and prints
//! the result. A wait counts from the time at which the message was due, not from the time at which
//! it was sent.

use std::collections::VecDeque;
use std::io::{Lines, Read as _, StdinLock, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, epoll};
use rustix::time::Timespec;

use super::Layout;
use super::served::BLOCKS;
use crate::child::ChildProcess;
use crate::cpus::{pin, unpin};
use crate::dice::Dice;
use crate::machine::{count_in, count_out};
use crate::waits::Waits;

/// Number of connections of a call.
pub(super) const CONNECTIONS: usize = 64;
/// The byte that fills an ordinary message.
const PLAIN: u8 = b'x';

/// The instructions for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) address: SocketAddr,
    pub(super) layout: Layout,
    /// Bytes in a message.
    pub(super) size: usize,
    /// One message in this many asks the server to block; 0 means none.
    pub(super) block_one_in: u64,
    /// Nanoseconds between two messages; 0 means that each connection sends as soon as it has its
    /// reply.
    pub(super) every: u64,
    pub(super) messages: u64,
}

impl Call {
    fn to_line(self) -> String {
        format!(
            "{} {} {} {} {} {}",
            self.address,
            self.layout.word(),
            self.size,
            self.block_one_in,
            self.every,
            self.messages
        )
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self {
            address: words.next()?.parse().ok()?,
            layout: Layout::of_word(words.next()?)?,
            size: words.next()?.parse().ok()?,
            block_one_in: words.next()?.parse().ok()?,
            every: words.next()?.parse().ok()?,
            messages: words.next()?.parse().ok()?,
        })
    }
}

/// The result of a call.
pub(super) struct Answer {
    pub(super) elapsed: Duration,
    /// Waits of the messages that did not block and had no blocking message before them on their
    /// connection.
    pub(super) others: Waits,
    /// Waits of all messages.
    pub(super) all: Waits,
}

/// The parent's handle of the caller process.
pub(super) struct Caller(ChildProcess);

impl Caller {
    pub(super) fn start() -> Self {
        let child = ChildProcess::start(&["--caller"]).expect("this program can be started again");
        count_in(child.id());
        Self(child)
    }

    /// Makes the caller connect, then runs `watch`. `watch` gets a function that makes the caller
    /// send and returns the result.
    pub(super) fn call<T>(
        &mut self,
        call: Call,
        watch: impl FnOnce(&mut dyn FnMut() -> Answer) -> T,
    ) -> T {
        self.send_line(&call.to_line());
        assert_eq!(self.read_line(), "ready", "the caller connects");
        watch(&mut || {
            self.send_line("go");
            let line = self.read_line();
            parse_answer(&line)
                .unwrap_or_else(|| panic!("the caller sent an invalid line: {line:?}"))
        })
    }

    fn send_line(&mut self, line: &str) {
        self.0.send_line(line).expect("the caller listens");
    }

    fn read_line(&mut self) -> String {
        self.0.read_line().expect("the caller speaks in lines")
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        count_out(self.0.id());
    }
}

fn parse_answer(line: &str) -> Option<Answer> {
    let mut words = line.split_whitespace();
    Some(Answer {
        elapsed: Duration::from_nanos(words.next()?.parse().ok()?),
        others: Waits::from_word(words.next()?)?,
        all: Waits::from_word(words.next()?)?,
    })
}

/// Runs the child: executes calls until its input ends.
pub(crate) fn child() -> ExitCode {
    let mut lines = std::io::stdin().lines();
    while let Some(Ok(line)) = lines.next() {
        let Some(call) = Call::from_line(&line) else {
            eprintln!("{line:?} is not a call");
            return ExitCode::from(2);
        };
        if !serve(call, &mut lines) {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn serve(call: Call, lines: &mut Lines<StdinLock<'static>>) -> bool {
    match call.layout {
        Layout::Apart => pin(1),
        Layout::Free => unpin(),
    }
    // If the caller does not spin, it should at least be woken in time.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut run = Run::connect(call);
    println!("ready");
    if !matches!(lines.next(), Some(Ok(_))) {
        return false;
    }
    let elapsed = run.send();
    println!(
        "{} {} {}",
        elapsed.as_nanos(),
        run.others.to_word(),
        run.all.to_word()
    );
    true
}

/// One call in progress.
struct Run {
    call: Call,
    poller: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    dice: Dice,
    plain: Vec<u8>,
    blocks: Vec<u8>,
    buffer: Vec<u8>,
    others: Waits,
    all: Waits,
}

struct Connection {
    stream: TcpStream,
    under_way: VecDeque<Message>,
    /// Number of blocking messages in flight.
    blockers: usize,
    /// Bytes received of the next reply.
    got: usize,
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
}

struct Message {
    due: Instant,
    blocks: bool,
    /// `true` if neither this message nor one before it in flight blocks.
    is_other: bool,
}

impl Run {
    fn connect(call: Call) -> Self {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("the system has a poller");
        let mut message = vec![PLAIN; call.size];
        let connections = (0..CONNECTIONS).map(|at| {
            let mut stream = TcpStream::connect(call.address).expect("the server listens");
            stream.set_nodelay(true).expect("a TCP option");
            stream.write_all(&message).expect("the server is there");
            stream.read_exact(&mut message).expect("it echoes");
            stream.set_nonblocking(true).expect("a socket option");
            let data = epoll::EventData::new_u64(at as u64);
            let when = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&poller, &stream, data, when).expect("the poller takes a socket");
            Connection {
                stream,
                under_way: VecDeque::new(),
                blockers: 0,
                got: 0,
                unsent: Vec::new(),
            }
        });
        let connections = connections.collect();
        let (plain, mut blocks) = (vec![PLAIN; call.size], vec![PLAIN; call.size]);
        blocks[0] = BLOCKS;
        Self {
            call,
            poller,
            connections,
            // The same messages block with every server.
            dice: Dice(7),
            plain,
            blocks,
            buffer: vec![0; 64 * 1024],
            others: Waits::new(),
            all: Waits::new(),
        }
    }

    /// Sends all messages and waits for all replies.
    fn send(&mut self) -> Duration {
        let Call {
            every, messages, ..
        } = self.call;
        let began = Instant::now();
        let due_at = |number: u64| began + Duration::from_nanos(every * number);
        let (mut sent, mut done) = (0, 0);
        if every == 0 {
            for at in 0..CONNECTIONS {
                self.send_one(at, Instant::now());
            }
            sent = CONNECTIONS as u64;
        }
        let mut events = Vec::with_capacity(CONNECTIONS);
        while done < messages.max(sent) {
            let now = Instant::now();
            while every > 0 && sent < messages && due_at(sent) <= now {
                self.send_one(sent as usize % CONNECTIONS, due_at(sent));
                sent += 1;
            }
            let next = (every > 0 && sent < messages).then(|| due_at(sent));
            self.wait(next);
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            let zero = Timespec::default();
            epoll::wait(&self.poller, spare, Some(&zero)).expect("the poller works");
            for event in &events {
                let at = event.data.u64() as usize;
                let answered = self.receive(at);
                done += answered;
                for _ in 0..answered {
                    if every == 0 && sent < messages {
                        self.send_one(at, Instant::now());
                        sent += 1;
                    }
                }
            }
        }
        began.elapsed()
    }

    /// Waits until data arrives or `next` is due. With a CPU of its own, the caller does not sleep.
    fn wait(&self, next: Option<Instant>) {
        let timeout = match (self.call.layout, next) {
            (Layout::Apart, Some(_)) => return,
            (_, Some(next)) => Some(next.saturating_duration_since(Instant::now())),
            (_, None) => None,
        };
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.poller, PollFlags::IN)];
        rustix::event::poll(&mut fds, timeout.as_ref()).expect("polling works");
    }

    fn send_one(&mut self, at: usize, due: Instant) {
        let one_in = self.call.block_one_in;
        let blocks = one_in > 0 && self.dice.below(one_in) == 0;
        let connection = &mut self.connections[at];
        connection.blockers += usize::from(blocks);
        connection.under_way.push_back(Message {
            due,
            blocks,
            is_other: connection.blockers == 0,
        });
        let message = if blocks { &self.blocks } else { &self.plain };
        connection.unsent.extend_from_slice(message);
        connection.push();
    }

    /// Receives on a connection and returns the number of complete replies.
    fn receive(&mut self, at: usize) -> u64 {
        let connection = &mut self.connections[at];
        let mut answered = 0;
        loop {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(count) => connection.got += count,
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(why) => panic!("a connection broke: {why}"),
            }
            let now = Instant::now();
            while connection.got >= self.call.size {
                connection.got -= self.call.size;
                let message = connection.under_way.pop_front();
                let message = message.expect("a response has a request");
                connection.blockers -= usize::from(message.blocks);
                let wait = now.saturating_duration_since(message.due);
                self.all.add(wait);
                if message.is_other {
                    self.others.add(wait);
                }
                answered += 1;
            }
        }
        connection.push();
        answered
    }
}

impl Connection {
    /// Sends as many of the unsent bytes as the socket accepts.
    fn push(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        match self.stream.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(why) => panic!("a connection broke: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_back() {
        let call = Call {
            address: "127.0.0.1:80".parse().expect("an address"),
            layout: Layout::Free,
            size: 64,
            block_one_in: 100,
            every: 20_000,
            messages: 1_000,
        };
        assert_eq!(Call::from_line(&call.to_line()), Some(call));
        assert_eq!(Call::from_line("127.0.0.1:80 near 1 2 3 4"), None);
    }
}
