//! The load generator: many connections, one message in flight on each, on the calling thread.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::cpus::pin;
use crate::machine::{cpu_time, thread_cpu_time};
use crate::waits::Waits;

/// The result of a run.
pub(crate) struct Result {
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of all threads but this one.
    pub(crate) server_cpu: Duration,
    /// Waits in nanoseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Connections to one server.
pub(crate) struct Load {
    poll: Poll,
    connections: Vec<Connection>,
    message: Vec<u8>,
    /// Bytes in a reply.
    reply: usize,
}

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    /// Bytes of the message that were sent, and bytes of the reply that were received.
    sent: usize,
    got: usize,
}

impl Load {
    /// Connects to a server that echoes messages of `size` bytes, and moves this thread to the second
    /// CPU.
    pub(crate) fn connect(address: SocketAddr, count: usize, size: usize) -> Self {
        Self::exchange(address, count, vec![b'x'; size], size)
    }

    /// Connects to a server whose reply to `message` has `reply` bytes, and moves this thread to the
    /// second CPU.
    pub(crate) fn exchange(
        address: SocketAddr,
        count: usize,
        message: Vec<u8>,
        reply: usize,
    ) -> Self {
        pin(1);
        let poll = Poll::new().expect("the system has a poller");
        let mut connections = Vec::with_capacity(count);
        for at in 0..count {
            let stream = std::net::TcpStream::connect(address).expect("the server listens");
            stream.set_nodelay(true).expect("a TCP option");
            stream.set_nonblocking(true).expect("a socket option");
            let mut stream = TcpStream::from_std(stream);
            poll.registry()
                .register(&mut stream, Token(at), Interest::READABLE)
                .expect("the poller takes a socket");
            connections.push(Connection {
                stream,
                sent_at: Instant::now(),
                sent: 0,
                got: 0,
            });
        }
        Self {
            poll,
            connections,
            message,
            reply,
        }
    }

    /// Sends `messages` messages, one at a time on each connection, and waits for the replies.
    pub(crate) fn run(&mut self, messages: u64) -> Result {
        pin(1);
        let mut events = Events::with_capacity(1024);
        let mut waits = Waits::new();
        let (began, cpu, own) = (Instant::now(), cpu_time(), thread_cpu_time());
        let (mut sent, mut done) = (0, 0);
        for connection in &mut self.connections {
            if sent < messages {
                connection.send(&self.message);
                sent += 1;
            }
        }
        let mut buffer = vec![0; self.reply];
        while done < sent {
            match self.poll.poll(&mut events, None) {
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
                polled => polled.expect("the poller works"),
            }
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                if !connection.receive(&self.message, self.reply, &mut buffer) {
                    continue;
                }
                done += 1;
                waits.add(connection.sent_at.elapsed());
                if sent < messages {
                    connection.send(&self.message);
                    sent += 1;
                }
            }
        }
        let elapsed = began.elapsed();
        let server_cpu = (cpu_time() - cpu).saturating_sub(thread_cpu_time() - own);
        Result {
            messages: done,
            elapsed,
            server_cpu,
            p50: waits.at(0.5),
            p99: waits.at(0.99),
        }
    }
}

impl Connection {
    fn send(&mut self, message: &[u8]) {
        self.sent_at = Instant::now();
        self.got = 0;
        self.sent = 0;
        self.push(message);
    }

    /// Sends the rest of the message; the server's reply to the first part makes room for more.
    fn push(&mut self, message: &[u8]) {
        match self.stream.write(&message[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(why) => {
                let full = why.kind() == std::io::ErrorKind::WouldBlock && self.sent > 0;
                assert!(full, "a connection broke: {why}");
            }
        }
    }

    /// Receives bytes. Returns `true` if the whole reply has arrived.
    fn receive(&mut self, message: &[u8], reply: usize, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(count) => self.got += count,
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return false,
                Err(why) => panic!("a connection broke: {why}"),
            }
            if self.sent < message.len() {
                self.push(message);
            }
            if self.got >= reply {
                return true;
            }
        }
    }
}
