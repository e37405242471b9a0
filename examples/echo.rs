//! An echo server: `echo [ADDRESS]`. Without an address it serves itself one message and ends.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate::Blocking;
use tidegate::net::{Bytes, Inbound, InboundContext, Nothing, Server};

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

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("io", 2)?;
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    println!("listening on {}", server.local_addr());
    if address.is_some() {
        server.closed().wait()?;
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"hello")?;
    let mut answer = [0; 5];
    client.read_exact(&mut answer)?;
    println!("{}", String::from_utf8_lossy(&answer));
    Ok(())
}
