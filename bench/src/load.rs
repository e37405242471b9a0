//! The load generator: many connections, one message in flight on each, on the calling thread.
//!
//! A message may consist of several requests, which are then pipelined. A connection may be replaced
//! by a new one after a number of messages.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tidegate_net::tls::rustls::pki_types::ServerName;
use tidegate_net::tls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::cpus::pin;
use crate::machine::{cpu_time, thread_cpu_time};

/// The result of a run.
pub(crate) struct Result {
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of all threads of this process but this one.
    pub(crate) server_cpu: Duration,
    /// Waits in nanoseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Connections to one server.
pub(crate) struct Load {
    poll: Poll,
    connections: Vec<Connection>,
    address: SocketAddr,
    message: Vec<u8>,
    /// Bytes in a reply.
    reply: usize,
    /// Messages after which a connection is replaced.
    life: u32,
    secure: Option<Arc<ClientConfig>>,
}

struct Connection {
    stream: Stream,
    sent_at: Instant,
    /// Bytes of the message that were sent, and bytes of the reply that were received.
    sent: usize,
    got: usize,
    /// Replies that were received.
    replies: u32,
}

/// The largest amount that is received at once, in bytes.
const BUFFER: usize = 256 * 1024;

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
        Self::exchange_over(address, count, message, reply, None)
    }

    /// Like [`Load::exchange`], encrypted if there is a configuration.
    pub(crate) fn exchange_over(
        address: SocketAddr,
        count: usize,
        message: Vec<u8>,
        reply: usize,
        secure: Option<Arc<ClientConfig>>,
    ) -> Self {
        pin(1);
        let poll = Poll::new().expect("the system has a poller");
        let open = |at| Connection::open(address, &poll, at, secure.as_ref());
        let connections = (0..count).map(open).collect();
        Self {
            poll,
            connections,
            address,
            message,
            reply,
            life: u32::MAX,
            secure,
        }
    }

    /// Replaces each connection after so many messages.
    pub(crate) fn short(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// Exchanges `messages` messages on each connection. After that the server has accepted every
    /// connection, and has the memory for it.
    pub(crate) fn warm_up(&mut self, messages: usize) {
        for _ in 0..messages {
            // Each connection sends its first message before one sends a second.
            self.run(self.connections.len() as u64);
        }
    }

    /// Sends `messages` messages, one at a time on each connection, and waits for the replies.
    pub(crate) fn run(&mut self, messages: u64) -> Result {
        pin(1);
        let mut events = Events::with_capacity(1024);
        let mut waits = Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).expect("valid bounds");
        let (began, cpu, own) = (Instant::now(), cpu_time(), thread_cpu_time());
        let (mut sent, mut done) = (0, 0);
        for connection in &mut self.connections {
            if sent < messages {
                connection.send(&self.message);
                sent += 1;
            }
        }
        let mut buffer = vec![0; self.reply.min(BUFFER)];
        while done < sent {
            match self.poll.poll(&mut events, None) {
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
                polled => polled.expect("the poller works"),
            }
            for event in &events {
                let at = event.token().0;
                let connection = &mut self.connections[at];
                if !connection.receive(&self.message, self.reply, &mut buffer) {
                    continue;
                }
                done += 1;
                waits.saturating_record(connection.sent_at.elapsed().as_nanos() as u64);
                if connection.replies >= self.life {
                    let secure = self.secure.as_ref();
                    *connection = Connection::open(self.address, &self.poll, at, secure);
                }
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
            p50: waits.value_at_quantile(0.5) as f64,
            p99: waits.value_at_quantile(0.99) as f64,
        }
    }
}

impl Connection {
    fn open(
        address: SocketAddr,
        poll: &Poll,
        at: usize,
        secure: Option<&Arc<ClientConfig>>,
    ) -> Self {
        let mut stream = std::net::TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP option");
        let session = secure.map(|config| agree(config, &mut stream));
        stream.set_nonblocking(true).expect("a socket option");
        let mut stream = TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, Token(at), Interest::READABLE)
            .expect("the poller takes a socket");
        let stream = match session {
            None => Stream::Plain(stream),
            Some(session) => Stream::Secure(Box::new(StreamOwned::new(session, stream))),
        };
        Self {
            stream,
            sent_at: Instant::now(),
            sent: 0,
            got: 0,
            replies: 0,
        }
    }

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
                self.replies += 1;
                return true;
            }
        }
    }
}

/// The bytes of a connection, as they are or encrypted.
enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Secure(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}

/// Makes the handshake with a server that has a certificate for `localhost`.
pub(crate) fn agree(
    config: &Arc<ClientConfig>,
    stream: &mut std::net::TcpStream,
) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("it is a name");
    let mut session = ClientConnection::new(Arc::clone(config), name).expect("a session");
    while session.is_handshaking() {
        session.complete_io(stream).expect("the server agrees");
    }
    session
}
