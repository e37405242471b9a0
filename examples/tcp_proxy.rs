//! A TCP proxy: `tcp_proxy UPSTREAM [ADDRESS]`. Each side reads only as fast as the other takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bytes::Bytes;
use tidegate_net::{Channel, Client, Inbound, InboundContext, NetGroup, Nothing, Server};

/// Gives what it reads to the other side, and stops reading while that one is full.
struct Pipe {
    other: Option<Channel>,
    upstream: Option<(NetGroup, SocketAddr)>,
}

impl Inbound for Pipe {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some((group, to)) = self.upstream.take() else {
            return;
        };
        // Nothing is read before there is somebody to give it to.
        ctx.set_auto_read(false);
        let (me, back) = (ctx.channel(), ctx.channel());
        let client = Client::new(&group).pipeline(move |p| {
            let (other, upstream) = (Some(back.clone()), None);
            p.add("pipe", Pipe { other, upstream })
        });
        let connecting = client.connect(to);
        me.close_on_failure(&connecting);
        connecting.finally(move |outcome| {
            if let tidegate_promise::Outcome::Success(upstream) = outcome {
                me.fire_event(upstream.clone());
                me.set_auto_read(true);
                // Even if this side ended while the other was being connected.
                let up = upstream.clone();
                me.closed()
                    .on_complete(move |_| drop(up.close_when_flushed()));
            }
        });
    }

    fn event(&mut self, event: tidegate_net::UserEvent, _: &mut InboundContext<'_, Self>) {
        self.other = event.downcast::<Channel>().ok();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let Some(other) = &self.other else { return };
        other.write_and_flush(bytes);
        if !other.is_writable() {
            ctx.set_auto_read(false);
        }
    }

    fn writability(&mut self, writable: bool, _: &mut InboundContext<'_, Self>) {
        if let Some(other) = self.other.as_ref().filter(|_| writable) {
            other.set_auto_read(true);
        }
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        if let Some(other) = &self.other {
            drop(other.close_when_flushed());
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let upstream = match arguments.next() {
        Some(address) => address.parse()?,
        None => listener.local_addr()?,
    };
    let group = tidegate_net::pinned("proxy", 2)?;
    let loops = group.clone();
    let address = arguments.next();
    let server = Server::new(&group)
        .pipeline(move |p| {
            let (other, upstream) = (None, Some((loops.clone(), upstream)));
            p.add("pipe", Pipe { other, upstream })
        })
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    println!("{} -> {upstream}", server.local_addr());
    if address.is_some() {
        server.closed().wait()?;
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"through the proxy")?;
    let (mut behind, _) = listener.accept()?;
    let mut heard = [0; 17];
    behind.read_exact(&mut heard)?;
    println!("{}", String::from_utf8_lossy(&heard));
    Ok(())
}
