//! The parts of the tour with sockets: handlers that block, and TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::Result;
use tidegate::net::{Client, Inbound, InboundContext, Nothing, Server, UserEvent, pinned, roaming};
use tidegate::prelude::*;
use tidegate::tls::{TlsClient, TlsHandshake, TlsServer};

use super::{Lines, line};

/// Echoes each message. The echo of `slow` is delayed until another connection has sent `fast`.
struct Sometimes {
    fast: Sender<()>,
    slow: Arc<Mutex<Receiver<()>>>,
}

impl Inbound for Sometimes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::May;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if bytes == "slow" {
            let _ = self
                .slow
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv();
        } else {
            let _ = self.fast.send(());
        }
        ctx.write(bytes);
        ctx.flush();
    }
}

pub(crate) fn roams() -> Result<Lines> {
    let workers = WorkerPool::builder("workers").core(3).max(3).build()?;
    let group = roaming("io", 1, &workers)?;
    let (fast, slow) = mpsc::channel();
    let slow = Arc::new(Mutex::new(slow));
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let (fast, slow) = (fast.clone(), Arc::clone(&slow));
            p.add("sometimes", Sometimes { fast, slow })
        })
        .bind("127.0.0.1:0")
        .wait()?;
    let mut answers = Vec::new();
    let mut first = TcpStream::connect(server.local_addr())?;
    first.write_all(b"slow")?;
    let mut second = TcpStream::connect(server.local_addr())?;
    second.write_all(b"fast")?;
    for client in [&mut second, &mut first] {
        let mut answer = [0; 4];
        client.read_exact(&mut answer)?;
        answers.push(String::from_utf8_lossy(&answer).into_owned());
    }
    drop((first, second));
    let report = server.drain(Duration::from_secs(5)).wait()?;
    let chose = group.metrics().into_iter().next();
    group.shutdown(Quiet::none(Duration::from_secs(5))).wait()?;
    Ok(vec![
        line(
            "one loop; a handler blocks until another connection sends",
            format!("answered {}; {report}", answers.join(", then ")),
        ),
        line(
            "choices of its strategy",
            chose.ok_or("a group has a loop")?,
        ),
    ])
}

/// Sends `hello` after the TLS handshake. Reports the TLS version, the reply, or the error.
struct Ask(Sender<String>);

impl Inbound for Ask {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if let Some(TlsHandshake { version, .. }) = event.downcast_ref() {
            let _ = self.0.send(format!("{version:?}"));
            ctx.write("hello");
            ctx.flush();
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let _ = self.0.send(String::from_utf8_lossy(&bytes).into_owned());
        ctx.close();
    }

    fn error(&mut self, why: tidegate::promise::Failure, ctx: &mut InboundContext<'_, Self>) {
        let _ = self.0.send(why.to_string());
        ctx.close();
    }
}

/// Writes back what it reads.
struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
        ctx.flush();
    }

    fn error(&mut self, _: tidegate::promise::Failure, ctx: &mut InboundContext<'_, Self>) {
        // The client of the second line rejects the certificate and reports that itself.
        ctx.close();
    }
}

/// A certificate for `localhost` and its key, of no use elsewhere.
const CHAIN: &[u8] = include_bytes!("localhost.pem");
const KEY: &[u8] = include_bytes!("localhost-key.pem");

pub(crate) fn tls() -> Result<Lines> {
    let tls = TlsServer::from_pem(CHAIN, KEY)?;
    let group = pinned("io", 1)?;
    let server = Server::builder(&group)
        .pipeline(move |p| p.add_duplex("tls", tls.handler()).add("echo", Echo))
        .bind("127.0.0.1:0")
        .wait()?;
    let ask = |name: &str, words: usize| -> Result<Vec<String>> {
        let name = TlsClient::trusting(CHAIN)?.name(name)?;
        let (say, said) = mpsc::channel();
        let client = Client::builder(&group)
            .pipeline(move |p| {
                p.add_duplex("tls", name.handler())
                    .add("ask", Ask(say.clone()))
            })
            .build();
        let channel = client.connect(server.local_addr()).wait()?;
        let heard = said.iter().take(words).collect();
        channel.closed().wait()?;
        Ok(heard)
    };
    Ok(vec![
        line(
            "a message over TLS, and its echo",
            ask("localhost", 2)?.join(", "),
        ),
        line(
            "the same server under another name",
            ask("elsewhere", 1)?.join(", "),
        ),
    ])
}
