//! A TCP proxy: `tcp_proxy UPSTREAM [ADDRESS]`. Each side reads only as fast as the other side
//! writes. If one side ends its half, the other side sees the end and can still answer. A reset is
//! passed on as a reset.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use tidegate::net::{
    Bytes, Channel, ChannelOptions, Client, Inbound, InboundContext, InputShutdown,
};
use tidegate::net::{NetGroup, Nothing, Server, UserEvent};
use tidegate::promise::{Completion, Outcome};
use tidegate::signal;

/// Forwards everything that it reads to the other side, and stops reading while that side is full.
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
        // Reads nothing before the connection to the other side exists.
        ctx.set_auto_read(false);
        let (me, back) = (ctx.channel(), ctx.channel());
        let client = Client::builder(&group)
            .options(options())
            .pipeline(move |p| {
                let (other, upstream) = (Some(back.clone()), None);
                p.add("pipe", Pipe { other, upstream })
            });
        client.connect(to).finally(move |outcome| match outcome {
            Outcome::Success(upstream) => {
                // Also if this side has ended while the other one was being connected.
                end_together(&me, upstream);
                end_together(upstream, &me);
                me.fire_event(upstream.clone());
                me.set_auto_read(true);
            }
            _ => drop(me.abort()),
        });
    }

    fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_some() {
            // This side has sent everything; the answers of the other side still come back.
            if let Some(other) = &self.other {
                drop(other.shutdown_output());
            }
        } else if let Ok(other) = event.downcast::<Channel>() {
            self.other = Some(other);
        }
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
}

/// Ends `other` when `one` has ended: with a reset if `one` failed.
fn end_together(one: &Channel, other: &Channel) {
    let (ended, other) = (one.clone(), other.clone());
    one.closed()
        .on_complete(move |_| match ended.close_cause() {
            Some(_) => drop(other.abort()),
            None => drop(other.close_when_flushed()),
        });
}

fn options() -> ChannelOptions {
    ChannelOptions {
        half_closure: true,
        ..ChannelOptions::default()
    }
}

/// Serves on `address` and forwards to `upstream`.
pub(crate) fn serve(group: &NetGroup, address: &str, upstream: SocketAddr) -> Completion<Server> {
    let loops = group.clone();
    let server = Server::builder(group)
        .options(options())
        .pipeline(move |p| {
            let (other, upstream) = (None, Some((loops.clone(), upstream)));
            p.add("pipe", Pipe { other, upstream })
        });
    server.bind(address)
}

fn main() -> tidegate::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let upstream = match arguments.next() {
        Some(address) => address.parse()?,
        None => listener.local_addr()?,
    };
    let group = tidegate::net::pinned("proxy", 2)?;
    let address = arguments.next();
    let server = serve(
        &group,
        address.as_deref().unwrap_or("127.0.0.1:0"),
        upstream,
    )
    .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("{} -> {upstream}", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"through the proxy")?;
    client.shutdown(Shutdown::Write)?;
    let (mut behind, _) = listener.accept()?;
    let (mut heard, mut answer) = (String::new(), String::new());
    behind.read_to_string(&mut heard)?;
    behind.write_all(b"and back")?;
    drop(behind);
    client.read_to_string(&mut answer)?;
    println!("{heard} {answer}");
    Ok(())
}
