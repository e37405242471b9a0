//! An echo server: `echo [ADDRESS]`. Without an address it serves itself one message and ends. With
//! one it serves until `SIGTERM` or Ctrl-C.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate::Blocking;
use tidegate::net::{Bytes, Draining, Inbound, InboundContext, Nothing, Server, UserEvent};
use tidegate::promise::Completion;
use tidegate::signal;

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

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("io", 2)?;
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("listening on {}", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"hello")?;
    let mut answer = [0; 5];
    client.read_exact(&mut answer)?;
    println!("{}", String::from_utf8_lossy(&answer));
    Ok(())
}
