//! Servers for other clients than ours: `interop FOLDER`.
//!
//! Writes the certificate to trust into the folder, prints `NAME ADDRESS` for each server and
//! `ready`, and ends with its standard input. `cargo xtask interop` runs it.

use std::io::Read;

use bytes::{Bytes, BytesMut};
use tidegate_net::handlers::{LineFrames, ProxiedPeer, ProxyProtocol};
use tidegate_net::tls::{TlsHandshake, TlsServer};
use tidegate_net::{
    Handler, Inbound, InboundContext, NetGroup, Nothing, PipelineBuilder, PipelineChange, Server,
    UserEvent,
};

/// Sends everything back, and ends after a `bye`.
struct Echo;

impl Inbound for Echo {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let last = bytes.ends_with(b"bye\n");
        ctx.write(bytes);
        if last {
            ctx.close_when_flushed();
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Sends each line back in capitals.
struct Shout;

impl Inbound for Shout {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let mut line = line.to_ascii_uppercase();
        line.push(b'\n');
        ctx.write(line);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

/// Puts the handler of the chosen protocol behind itself.
struct Choose;

impl Inbound for Choose {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        let Some(handshake) = event.downcast_ref::<TlsHandshake>() else {
            return;
        };
        let handler = match handshake.alpn.as_deref() {
            Some(b"http/1.1") => Handler::inbound(Http {
                said: format!("{handshake:?}\n"),
                request: BytesMut::new(),
            }),
            _ => Handler::inbound(Echo),
        };
        let added = ctx.change(PipelineChange::add_last("chosen", handler));
        added.expect("both take bytes");
    }
}

/// Replies to every request with the result of the handshake, or with a megabyte.
struct Http {
    said: String,
    request: BytesMut,
}

impl Inbound for Http {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.request.extend_from_slice(&bytes);
        if !self.request.ends_with(b"\r\n\r\n") {
            return;
        }
        let body = if self.request.starts_with(b"GET /big ") {
            Bytes::from(vec![b'x'; 1 << 20])
        } else {
            Bytes::from(self.said.clone())
        };
        let length = body.len();
        ctx.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
        ));
        ctx.write(body);
        ctx.close_when_flushed();
    }
}

/// Sends the address of the client behind the proxy, and closes.
struct ProxyAddresses;

impl Inbound for ProxyAddresses {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if let Some(ProxiedPeer { addresses }) = event.downcast_ref::<ProxiedPeer>() {
            let said = match addresses {
                Some((source, _)) => source.to_string(),
                None => "nobody".to_owned(),
            };
            ctx.write(said);
            ctx.close_when_flushed();
        }
    }

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
}

fn serve(
    group: &NetGroup,
    name: &str,
    assemble: impl Fn(PipelineBuilder) -> PipelineBuilder + Send + Sync + 'static,
) -> Result<Server, Box<dyn std::error::Error>> {
    let server = Server::builder(group)
        .pipeline(assemble)
        .bind("127.0.0.1:0");
    let server = server.wait()?;
    println!("{name} {}", server.local_addr());
    Ok(server)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: interop FOLDER")?;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (chain, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    std::fs::write(std::path::Path::new(&folder).join("trusted.pem"), &chain)?;
    let tls = TlsServer::from_pem(chain.as_bytes(), key.as_bytes())?.alpn(["echo", "http/1.1"]);

    let group = tidegate_net::pinned("interop", 2)?;
    let _servers = [
        serve(&group, "echo", |p| p.add("echo", Echo))?,
        serve(&group, "lines", |p| {
            p.add("lines", LineFrames::max(1024)).add("shout", Shout)
        })?,
        serve(&group, "tls", move |p| {
            p.add_duplex("tls", tls.handler()).add("choose", Choose)
        })?,
        serve(&group, "proxied", |p| {
            p.add("proxy", ProxyProtocol::new())
                .add("who", ProxyAddresses)
        })?,
    ];
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
