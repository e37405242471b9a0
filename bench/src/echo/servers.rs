//! The servers: ours, a raw epoll loop as the floor, and the peers. Each runs until the process
//! ends.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::Roaming;
use tidegate_net::{Blocking, Inbound, InboundContext, Nothing, PipelineBuilder, Server};
use tidegate_pool::WorkerPool;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cpus::pin;
use crate::dice::Dice;
use crate::raw_epoll::{LISTENER, RawEpoll, send_rest};
use crate::served::{Ours, Running};

/// Threads of the pool under a roaming loop.
const POOL: usize = 32;
/// How long a blocking handler blocks.
const BLOCK: Duration = Duration::from_millis(10);

/// The kind of server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Ours: a handler that echoes, behind `passing` handlers that pass messages on.
    Ours { passing: usize },
    /// Ours on a roaming loop, over a pool of 32.
    Roaming,
    /// Ours, with a handler that sometimes blocks, on a pinned loop.
    PinnedBlockers,
    /// The same on a roaming loop, over a pool of 32.
    RoamingBlockers,
    /// `epoll_wait`, `recv`, `send`, and nothing else.
    RawEpoll,
    /// The same over mio.
    Mio,
    /// A task for each connection, with a buffer.
    TokioCurrent,
    /// A task for each connection that waits without a buffer.
    TokioBare,
    /// A task for each connection on one thread, with a buffer.
    Smol,
}

/// Size of the buffer that peers read into, in bytes.
const BUFFER: usize = 4096;

/// Starts a server on the first CPU.
pub(super) fn start(kind: Kind) -> Running {
    pin(0);
    match kind {
        Kind::Ours { passing } => return ours(passing),
        Kind::Roaming => return roaming(|p| p.add("echo", Echo)),
        Kind::PinnedBlockers => return pinned(|p| p.add("blocks", Blocks::new())),
        Kind::RoamingBlockers => return roaming(|p| p.add("blocks", Blocks::new())),
        _ => {}
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || serve(kind, listener));
    Running::peer(address)
}

/// Runs a peer.
fn serve(kind: Kind, listener: TcpListener) {
    match kind {
        Kind::RawEpoll => raw_epoll(&listener),
        Kind::Mio => over_mio(listener),
        Kind::TokioCurrent => over_tokio(listener),
        Kind::TokioBare => over_bare_tokio(listener),
        Kind::Smol => over_smol(listener),
        _ => unreachable!("ours are started elsewhere"),
    }
}

struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// A handler that passes every message on.
struct PassOn;

impl Inbound for PassOn {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

/// A handler that echoes, and blocks for 10 ms before one message in a hundred, by a seed of its
/// own.
struct Blocks(Dice);

impl Blocks {
    fn new() -> Self {
        static SEED: AtomicU64 = AtomicU64::new(1);
        Self(Dice(
            SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed),
        ))
    }
}

impl Inbound for Blocks {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::May;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.0.below(100) == 0 {
            std::thread::sleep(BLOCK);
        }
        ctx.write(bytes);
        ctx.flush();
    }
}

fn ours(passing: usize) -> Running {
    pinned(move |mut p| {
        for _ in 0..passing {
            p = p.add("", PassOn);
        }
        p.add("echo", Echo)
    })
}

fn pinned(
    assemble: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
) -> Running {
    let group = tidegate_net::pinned("echo", 1).expect("a poller");
    let server = Server::builder(&group)
        .pipeline(assemble)
        .bind("127.0.0.1:0");
    let server = server.wait().expect("a free port");
    Running::ours(server.local_addr(), Ours::Pinned(group))
}

fn roaming(
    assemble: impl Fn(PipelineBuilder<Roaming>) -> PipelineBuilder<Roaming> + Send + Sync + 'static,
) -> Running {
    let pool = WorkerPool::builder("workers").core(POOL).max(POOL);
    let pool = pool.build().expect("limits that agree");
    let group = tidegate_net::roaming("echo", 1, &pool).expect("a poller");
    let server = Server::builder(&group)
        .pipeline(assemble)
        .bind("127.0.0.1:0");
    let server = server.wait().expect("a free port");
    Running::ours(server.local_addr(), Ours::Roaming(group))
}

pub(crate) fn raw_epoll(listener: &TcpListener) {
    let mut raw = RawEpoll::new(listener);
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; BUFFER];
    loop {
        if !raw.wait(&mut events) {
            continue;
        }
        for event in &events {
            let at = event.data.u64();
            if at == LISTENER {
                raw.accept();
                continue;
            }
            if let Some(count @ 1..) = raw.receive(at as usize, &mut buffer) {
                raw.send(at as usize, &buffer[..count]);
            }
        }
    }
}

fn over_mio(listener: TcpListener) {
    listener.set_nonblocking(true).expect("a socket option");
    let mut listener = mio::net::TcpListener::from_std(listener);
    let mut poll = mio::Poll::new().expect("a poller");
    let listening = mio::Token(usize::MAX - 1);
    poll.registry()
        .register(&mut listener, listening, mio::Interest::READABLE)
        .expect("the poller takes it");
    let mut sockets: Vec<Option<mio::net::TcpStream>> = Vec::new();
    let mut events = mio::Events::with_capacity(1024);
    let mut buffer = [0; BUFFER];
    loop {
        if poll.poll(&mut events, None).is_err() {
            continue;
        }
        for event in &events {
            if event.token() == listening {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true).expect("a TCP option");
                    let token = mio::Token(sockets.len());
                    poll.registry()
                        .register(&mut stream, token, mio::Interest::READABLE)
                        .expect("the poller takes it");
                    sockets.push(Some(stream));
                }
                continue;
            }
            let slot = &mut sockets[event.token().0];
            let Some(socket) = slot else { continue };
            match socket.read(&mut buffer) {
                Ok(0) => *slot = None,
                Ok(count) => {
                    let sent = socket.write(&buffer[..count]).unwrap_or(0);
                    if sent < count {
                        send_rest(&buffer[sent..count], |rest| socket.write(rest));
                    }
                }
                Err(_) => {}
            }
        }
    }
}

fn over_tokio(listener: TcpListener) {
    accept_by_tokio(listener, |mut stream| async move {
        let mut buffer = [0; BUFFER];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    });
}

fn over_bare_tokio(listener: TcpListener) {
    accept_by_tokio(listener, |stream| async move {
        while stream.readable().await.is_ok() && bounce(&stream) {}
    });
}

/// Spawns a task of `serve` for each connection, on a current_thread runtime.
fn accept_by_tokio<F>(listener: TcpListener, serve: impl Fn(tokio::net::TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    listener.set_nonblocking(true).expect("a socket option");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            stream.set_nodelay(true).expect("a TCP option");
            tokio::spawn(serve(stream));
        }
    });
}

/// Echoes the available bytes from a buffer on the stack. Returns `false` at the end of the stream.
fn bounce(stream: &tokio::net::TcpStream) -> bool {
    let mut buffer = [0; BUFFER];
    match stream.try_read(&mut buffer) {
        Ok(0) => false,
        Ok(count) => stream.try_write(&buffer[..count]).is_ok(),
        Err(why) => why.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn over_smol(listener: TcpListener) {
    use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let executor = smol::LocalExecutor::new();
    let accept = async {
        let listener = smol::Async::new(listener).expect("the reactor takes it");
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                continue;
            };
            stream.get_ref().set_nodelay(true).expect("a TCP option");
            let serve = async move {
                let mut buffer = [0; BUFFER];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            };
            executor.spawn(serve).detach();
        }
    };
    smol::block_on(executor.run(accept));
}
