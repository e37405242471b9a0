//! The metrics of a program for Prometheus: serves `GET /metrics`. `metrics [ADDRESS]`. Without an
//! address it reads its own metrics once and ends. With one it serves until `SIGTERM` or Ctrl-C.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate::metrics::Exporter;
use tidegate::net::handlers::LineFrames;
use tidegate::prelude::*;
use tidegate::signal;

/// Sends the metrics for each request, and closes the connection.
struct Metrics(Exporter);

impl Inbound for Metrics {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        // An empty line ends the head of a request.
        if !line.is_empty() {
            return;
        }
        let body = self.0.encode();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            Exporter::CONTENT_TYPE,
            body.len(),
        );
        ctx.write(head + &body);
        ctx.flush();
        ctx.close_when_flushed();
    }
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let isolation = Isolation::builder().build()?;
    let prices: Command<u32, String> = Command::builder("prices")
        .group("catalog")
        .build(&isolation)?;
    println!("the price is {:?}", prices.run(|_cancel| Ok(42)));

    let group = tidegate::net::pinned("io", 1)?;
    let exporter = Exporter::new();
    exporter.add(group.clone());
    exporter.add(isolation);
    let shared = exporter.clone();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            p.add("lines", LineFrames::max(8 * 1024))
                .add("metrics", Metrics(shared.clone()))
        })
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    exporter.add(server.clone());
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("metrics at http://{}/metrics", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    client.read_to_string(&mut text)?;
    for line in text.lines().filter(|line| line.ends_with(" 1")) {
        println!("{line}");
    }
    Ok(())
}
