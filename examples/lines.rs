//! A line protocol: numbers in, their sum out. `reset` sets the sum to zero; anything else is an
//! error.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate::net::handlers::{Idle, LineFrames, Strings};
use tidegate::net::{Inbound, InboundContext, Nothing, Server};
use tidegate::promise::Failure;

#[derive(Default)]
struct Sum(i64);

impl Inbound for Sum {
    type In = String;
    type Out = Nothing;
    type Write = String;

    fn read(&mut self, line: String, ctx: &mut InboundContext<'_, Self>) {
        match line.trim().parse::<i64>() {
            Ok(number) => self.0 = self.0.saturating_add(number),
            Err(_) if line == "reset" => self.0 = 0,
            Err(why) => return ctx.write(format!("error: {why}\n")),
        }
        ctx.write(format!("{}\n", self.0));
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        // Reads no more requests from a client that does not read the answers.
        ctx.set_auto_read(writable);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        // A line was too long, or the client was silent for a minute.
        ctx.write(format!("error: {why}\n"));
        ctx.close_when_flushed();
    }
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("sum", 1)?;
    let server = Server::builder(&group)
        .pipeline(|p| {
            p.add_duplex("idle", Idle::reads(Duration::from_secs(60)).closes())
                .add("lines", LineFrames::max(80))
                .add_duplex("text", Strings::lossy())
                .add("sum", Sum::default())
        })
        .bind("127.0.0.1:0")
        .wait()?;
    let mut client = BufReader::new(TcpStream::connect(server.local_addr())?);
    for line in ["20", "22", "ink", "reset"] {
        writeln!(client.get_mut(), "{line}")?;
        let mut answer = String::new();
        client.read_line(&mut answer)?;
        print!("{line} -> {answer}");
    }
    Ok(())
}
