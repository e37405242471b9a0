//! A server for a protocol of one's own: a key-value store that speaks lines.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::net::handlers::{Idle, LineFrames, Strings};
use tidegate::net::{Draining, UserEvent};
use tidegate::prelude::*;

/// A request of the protocol.
enum Request {
    Get(String),
    Set(String, String),
}

/// Makes requests of lines.
struct Parse;

impl Inbound for Parse {
    type In = String;
    type Out = Request; // what the next handler takes
    type Write = String;

    fn read(&mut self, line: String, ctx: &mut InboundContext<'_, Self>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["get", key] => ctx.fire_read(Request::Get(key.to_owned())),
            ["set", key, value] => ctx.fire_read(Request::Set(key.to_owned(), value.to_owned())),
            _ => ctx.write("error: the requests are `get KEY` and `set KEY VALUE`\n".to_owned()),
        }
    }
}

/// Responds to the requests of one connection.
struct Answer(Arc<Mutex<HashMap<String, String>>>);

impl Inbound for Answer {
    type In = Request;
    type Out = Nothing;
    type Write = String;

    fn read(&mut self, request: Request, ctx: &mut InboundContext<'_, Self>) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match request {
            Request::Get(key) => values.get(&key).cloned(),
            Request::Set(key, value) => values.insert(key, value).or(Some("new".to_owned())),
        };
        ctx.write(answer.unwrap_or_else(|| "none".to_owned()) + "\n");
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush(); // one system call for all answers so far
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        ctx.set_auto_read(writable); // a client that does not read gets no more answers
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(format!("error: {why}\n")); // a line is too long, or the client is silent
        ctx.close_when_flushed();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast::<Draining>().is_ok() {
            ctx.close_when_flushed(); // the server ends: every request so far has its answer
        }
    }
}

fn main() -> tidegate::Result<()> {
    let group = tidegate::net::pinned("store", 2)?; // two loops, each with a thread
    let values = Arc::default();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            p.add_duplex("idle", Idle::reads(Duration::from_secs(60)).closes())
                .add("lines", LineFrames::max(1024))
                .add_duplex("text", Strings::lossy())
                .add("parse", Parse)
                .add("answer", Answer(Arc::clone(&values)))
        })
        .bind("127.0.0.1:0")
        .wait()?;

    let mut client = BufReader::new(TcpStream::connect(server.local_addr())?);
    for request in ["get tea", "set tea green", "get tea", "drink tea"] {
        writeln!(client.get_mut(), "{request}")?;
        let mut answer = String::new();
        client.read_line(&mut answer)?;
        print!("{request} -> {answer}");
    }
    println!("drained: {}", server.drain(Duration::from_secs(5)).wait()?);
    Ok(())
}
