//! An echo server with TLS: `tls_echo [ADDRESS CHAIN.pem KEY.pem]`. Without arguments it creates a
//! certificate, serves itself one message and ends.

use std::sync::mpsc;

use tidegate::Blocking;
use tidegate::net::{Bytes, Client, Draining, Inbound, InboundContext, Nothing, Server, UserEvent};
use tidegate::promise::Completion;
use tidegate::signal;
use tidegate::tls::{TlsClient, TlsHandshake, TlsServer};

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

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            ctx.close_when_flushed(); // the server ends
        }
    }
}

struct Ask(mpsc::Sender<Bytes>);

impl Inbound for Ask {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if let Some(TlsHandshake { version, alpn, .. }) = event.downcast_ref() {
            println!("{version:?}, {alpn:?}");
            ctx.write("hello");
            ctx.flush();
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let _ = self.0.send(bytes);
        ctx.close();
    }
}

fn main() -> tidegate::Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let (address, chain, key) = match args.as_slice() {
        [address, chain, key] => (
            address.as_str(),
            std::fs::read_to_string(chain)?,
            std::fs::read_to_string(key)?,
        ),
        _ => {
            let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
            let key = own.signing_key.serialize_pem();
            ("127.0.0.1:0", own.cert.pem(), key)
        }
    };
    let tls = TlsServer::from_pem(chain.as_bytes(), key.as_bytes())?.alpn(["echo", "http/1.1"]);
    let group = tidegate::net::pinned("io", 2)?;
    let server = Server::builder(&group)
        .pipeline(move |p| p.add_duplex("tls", tls.handler()).add("echo", Echo))
        .bind(address)
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("listening on {}", server.local_addr());
    if !args.is_empty() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let tls = TlsClient::trusting(chain.as_bytes())?.alpn(["echo"]);
    let name = tls.name("localhost")?;
    let (answers, answer) = mpsc::channel();
    let client = Client::builder(&group)
        .pipeline(move |p| {
            p.add_duplex("tls", name.handler())
                .add("ask", Ask(answers.clone()))
        })
        .build();
    let channel = client.connect(server.local_addr()).wait()?;
    println!("{:?}", answer.recv()?);
    channel.closed().wait()?;
    Ok(())
}
