//! A codec in a few lines: one JSON value on each line, as Rust types in both directions.
//! `json_lines [ADDRESS]`. Without an address it serves itself two requests and ends.

use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::net::TcpStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate::net::handlers::LineFrames;
use tidegate::net::{
    Bytes, Draining, Inbound, InboundContext, Message, Nothing, Outbound, OutboundContext, Server,
    UserEvent,
};
use tidegate::promise::{Completion, Failure};
use tidegate::signal;

/// Decodes each line into an `I`, and encodes each `O` as a line.
struct JsonLines<I, O>(PhantomData<(I, O)>);

impl<I: DeserializeOwned + Send + 'static, O: Send + 'static> Inbound for JsonLines<I, O> {
    type In = Bytes;
    type Out = I;
    type Write = Nothing;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        match serde_json::from_slice::<I>(&line) {
            Ok(value) => ctx.fire_read(value),
            Err(why) => ctx.fire_error(Failure::new(why)),
        }
    }
}

impl<I: Send + 'static, O: Serialize + Send + 'static> Outbound for JsonLines<I, O> {
    type Take = O;
    type Write = Bytes;

    fn write(&mut self, value: O, ctx: &mut OutboundContext<'_, Self>) {
        match serde_json::to_vec(&value) {
            Ok(mut line) => {
                line.push(b'\n');
                ctx.write(line);
            }
            Err(why) => ctx.fire_error(Failure::new(why)),
        }
    }
}

#[derive(Deserialize)]
struct Ask {
    numbers: Vec<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Sum(f64),
    Error(String),
}

impl Message for Answer {
    fn size(&self) -> usize {
        match self {
            Self::Sum(_) => size_of::<f64>(),
            Self::Error(why) => why.len(),
        }
    }
}

struct Sum;

impl Inbound for Sum {
    type In = Ask;
    type Out = Nothing;
    type Write = Answer;

    fn read(&mut self, ask: Ask, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(Answer::Sum(ask.numbers.iter().sum()));
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        // Reads no more requests from a client that does not read the answers.
        ctx.set_auto_read(writable);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            ctx.close_when_flushed(); // the server ends
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(Answer::Error(why.to_string()));
        ctx.flush();
    }
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("json", 1)?;
    let codec = || JsonLines::<Ask, Answer>(PhantomData);
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let p = p.add("lines", LineFrames::max(64 * 1024));
            p.add_duplex("json", codec()).add("sum", Sum)
        })
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    let drained = server.drain_on(Completion::any([signal::terminate(), signal::interrupt()]));
    println!("listening on {}", server.local_addr());
    if address.is_some() {
        println!("{}", drained.wait()?);
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"{\"numbers\": [1, 2, 3.5]}\n{\"numbers\": \"none\"}\n")?;
    let answers = BufReader::new(client).lines().take(2);
    answers.for_each(|line| println!("{}", line.unwrap_or_default()));
    Ok(())
}
