//! Datagrams: a server that answers each datagram with its length.

use std::net::UdpSocket;

use tidegate::net::{Client, Datagram, Inbound, InboundContext, Nothing};

struct Lengths;

impl Inbound for Lengths {
    type In = Datagram;
    type Out = Nothing;
    type Write = Datagram;

    fn read(&mut self, question: Datagram, ctx: &mut InboundContext<'_, Self>) {
        let bytes = question.bytes.len().to_string().into();
        ctx.write(Datagram { bytes, ..question });
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("udp", 1)?;
    let server = Client::builder(&group)
        .pipeline(|p| p.add("lengths", Lengths))
        .build()
        .bind_udp("127.0.0.1:0".parse()?)
        .wait()?;
    let address = server.local_addr().ok_or("a bound socket has an address")?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.send_to(b"how long is this?", address)?;
    let mut answer = [0; 16];
    let (count, from) = client.recv_from(&mut answer)?;
    println!("{from} says {}", String::from_utf8_lossy(&answer[..count]));
    server.close().wait()?;
    Ok(())
}
