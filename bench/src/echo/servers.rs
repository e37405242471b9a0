//! The servers: ours, a raw epoll loop as the floor, and the peers. Each runs until the process ends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use monoio::io::{AsyncReadRent as _, AsyncWriteRentExt as _};
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};
use rustix::event::epoll;
use rustix::net::{RecvFlags, SendFlags};
use tidegate_net::{Inbound, InboundContext, NetGroup, Nothing, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::load::pin;

/// Which server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Ours: a handler that echoes, behind `passing` ones that pass on.
    Ours { passing: usize },
    /// `epoll_wait`, `recv`, `send`, and nothing else.
    RawEpoll,
    /// The same over mio.
    Mio,
    /// A task for each connection, with a buffer of 4 KiB.
    TokioCurrent,
    /// The same on two workers.
    TokioMulti,
    /// A task for each connection that waits without a buffer.
    TokioBare,
    /// A task for each connection on one thread, with a buffer of 4 KiB.
    Smol,
    /// The same over monoio's epoll driver.
    MonoioEpoll,
    /// The same over monoio's `io_uring` driver.
    MonoioUring,
}

/// A server that runs.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    ours: Option<(NetGroup, Server)>,
}

impl Running {
    /// System calls of ours so far.
    pub(super) fn io(&self) -> Option<u64> {
        let (group, _) = self.ours.as_ref()?;
        let all = group.io_metrics();
        Some(all.iter().map(|io| io.polls + io.reads + io.writes).sum())
    }
}

/// Starts a server on the first CPU.
pub(super) fn start(kind: Kind) -> Running {
    pin(0);
    if let Kind::Ours { passing } = kind {
        return ours(passing);
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || match kind {
        Kind::RawEpoll => raw_epoll(&listener),
        Kind::Mio => over_mio(listener),
        Kind::TokioCurrent => {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            over_tokio(builder.enable_all().build(), listener);
        }
        Kind::TokioMulti => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            over_tokio(builder.worker_threads(2).enable_all().build(), listener);
        }
        Kind::TokioBare => {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            over_bare_tokio(builder.enable_all().build(), listener);
        }
        Kind::Smol => over_smol(listener),
        Kind::MonoioEpoll => over_monoio(RuntimeBuilder::<LegacyDriver>::new().build(), listener),
        Kind::MonoioUring => over_monoio(RuntimeBuilder::<IoUringDriver>::new().build(), listener),
        Kind::Ours { .. } => unreachable!("started above"),
    });
    Running {
        address,
        ours: None,
    }
}

struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Looks at everything and passes it on.
struct PassOn;

impl Inbound for PassOn {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }
}

fn ours(passing: usize) -> Running {
    let group = tidegate_net::pinned("echo", 1).expect("a poller");
    let server = Server::new(&group)
        .pipeline(move |mut p| {
            for _ in 0..passing {
                p = p.add("", PassOn);
            }
            p.add("echo", Echo)
        })
        .bind("127.0.0.1:0")
        .wait()
        .expect("a free port");
    Running {
        address: server.local_addr(),
        ours: Some((group, server)),
    }
}

fn raw_epoll(listener: &TcpListener) {
    listener.set_nonblocking(true).expect("a socket option");
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let listening = epoll::EventData::new_u64(u64::MAX);
    epoll::add(&poller, listener, listening, epoll::EventFlags::IN).expect("epoll takes it");
    let mut sockets: Vec<OwnedFd> = Vec::new();
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; 4096];
    loop {
        events.clear();
        let spare = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&poller, spare, None).is_err() {
            continue;
        }
        for event in &events {
            let at = event.data.u64();
            if at == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true).expect("a TCP option");
                    stream.set_nonblocking(true).expect("a socket option");
                    let data = epoll::EventData::new_u64(sockets.len() as u64);
                    epoll::add(&poller, &stream, data, epoll::EventFlags::IN).expect("epoll");
                    sockets.push(stream.into());
                }
                continue;
            }
            let socket = &sockets[at as usize];
            let Ok((count, _)) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())
            else {
                continue;
            };
            if count == 0 {
                let _ = epoll::delete(&poller, socket);
                continue;
            }
            let _ = rustix::net::send(socket, &buffer[..count], SendFlags::NOSIGNAL);
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
    let mut buffer = [0; 4096];
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
                Ok(count) => drop(socket.write(&buffer[..count])),
                Err(_) => {}
            }
        }
    }
}

fn over_tokio(runtime: std::io::Result<tokio::runtime::Runtime>, listener: TcpListener) {
    let runtime = runtime.expect("a runtime");
    listener.set_nonblocking(true).expect("a socket option");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                continue;
            };
            stream.set_nodelay(true).expect("a TCP option");
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn over_bare_tokio(runtime: std::io::Result<tokio::runtime::Runtime>, listener: TcpListener) {
    let runtime = runtime.expect("a runtime");
    listener.set_nonblocking(true).expect("a socket option");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            stream.set_nodelay(true).expect("a TCP option");
            tokio::spawn(
                async move { while stream.readable().await.is_ok() && bounce(&stream) {} },
            );
        }
    });
}

/// Echoes what is there, out of a buffer on the stack; false at the end.
fn bounce(stream: &tokio::net::TcpStream) -> bool {
    let mut buffer = [0; 4096];
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
                let mut buffer = [0; 4096];
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

fn over_monoio<D: monoio::Driver>(runtime: std::io::Result<Runtime<D>>, listener: TcpListener) {
    let mut runtime = runtime.expect("a driver that was tried before");
    runtime.block_on(async move {
        let listener = monoio::net::TcpListener::from_std(listener).expect("the driver takes it");
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                continue;
            };
            stream.set_nodelay(true).expect("a TCP option");
            monoio::spawn(async move {
                let mut buffer = Vec::with_capacity(4096);
                loop {
                    let (read, filled) = stream.read(buffer).await;
                    if !matches!(read, Ok(1..)) {
                        return;
                    }
                    let (written, emptied) = stream.write_all(filled).await;
                    if written.is_err() {
                        return;
                    }
                    buffer = emptied;
                    buffer.clear();
                }
            });
        }
    });
}

/// Why a server cannot run here, if it cannot.
pub(super) fn complaint(kind: Kind) -> Option<String> {
    match kind {
        Kind::MonoioUring => {
            let tried = std::panic::catch_unwind(|| RuntimeBuilder::<IoUringDriver>::new().build());
            match tried {
                Ok(Ok(_)) => None,
                Ok(Err(why)) => Some(why.to_string()),
                Err(_) => Some("its driver panicked".to_owned()),
            }
        }
        _ => None,
    }
}
