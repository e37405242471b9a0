//! A small server for the Redis protocol: `resp [ADDRESS]`. It has PING, ECHO, GET, SET, INCR and
//! DEL, which is enough for `redis-cli` and `redis-benchmark -t ping,get,set,incr`.

mod commands;

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::net::{Bytes, Draining, Inbound, InboundContext, Nothing, Server, UserEvent};
use tidegate::promise::{Completion, Failure};
use tidegate::signal;

use self::commands::Commands;

type Store = Arc<Mutex<HashMap<Bytes, Bytes>>>;

fn answer(words: &[Bytes], store: &mut HashMap<Bytes, Bytes>) -> Bytes {
    let name = words[0].to_ascii_uppercase();
    match (name.as_slice(), &words[1..]) {
        (b"PING", []) => "+PONG\r\n".into(),
        (b"PING" | b"ECHO", [text]) => bulk(text),
        (b"GET", [key]) => store.get(key).map_or("$-1\r\n".into(), bulk),
        (b"SET", [key, value, ..]) => {
            store.insert(key.clone(), value.clone());
            "+OK\r\n".into()
        }
        (b"DEL", keys) => {
            let gone = keys.iter().filter(|key| store.remove(*key).is_some());
            format!(":{}\r\n", gone.count()).into()
        }
        (b"INCR", [key]) => {
            let old = store.get(key).map_or(&b"0"[..], |old| old);
            let old = String::from_utf8_lossy(old).parse::<i64>().ok();
            let Some(new) = old.and_then(|old| old.checked_add(1)) else {
                return "-ERR value is not an integer or out of range\r\n".into();
            };
            store.insert(key.clone(), new.to_string().into());
            format!(":{new}\r\n").into()
        }
        (b"COMMAND" | b"CONFIG", _) => "*0\r\n".into(),
        _ => format!("-ERR not a command I know: {}\r\n", name.escape_ascii()).into(),
    }
}

fn bulk(value: &Bytes) -> Bytes {
    let size = format!("${}\r\n", value.len());
    [size.as_bytes(), value, b"\r\n"].concat().into()
}

/// Runs commands. All answers of one read are sent in one write, unless they reach `WRITE_CHUNK`
/// bytes.
struct Replies {
    store: Store,
    pending_answers: Vec<u8>,
    /// `true` after an error: the connection is closed.
    ends: bool,
}

/// The size of the answers that are sent in one write. The channel counts the bytes that wait to be
/// sent, and has a cap. So a client that asks for a large value many times at once does not fill
/// the memory.
const WRITE_CHUNK: usize = 64 * 1024;

impl Inbound for Replies {
    type In = Vec<Bytes>;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, words: Vec<Bytes>, ctx: &mut InboundContext<'_, Self>) {
        if self.ends {
            return;
        }
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending_answers
            .extend_from_slice(&answer(&words, &mut store));
        drop(store);
        if self.pending_answers.len() >= WRITE_CHUNK {
            ctx.write(std::mem::take(&mut self.pending_answers));
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !self.pending_answers.is_empty() {
            ctx.write(std::mem::take(&mut self.pending_answers));
        }
        ctx.flush();
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        // Reads no more commands from a client that does not read the answers.
        ctx.set_auto_read(writable);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            ctx.close_when_flushed(); // the server ends
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.ends = true;
        self.pending_answers
            .extend(format!("-ERR {why}\r\n").bytes());
        self.read_complete(ctx);
        ctx.close_when_flushed();
    }
}

fn main() -> tidegate::Result<()> {
    let address = std::env::args().nth(1);
    let group = tidegate::net::pinned("resp", 1)?;
    let store = Store::default();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let p = p.add("commands", Commands::default());
            let answers = Replies {
                store: Arc::clone(&store),
                pending_answers: Vec::new(),
                ends: false,
            };
            p.add("answers", answers)
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
    client.write_all(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n41\r\nINCR a\r\nGET a\r\n")?;
    client.shutdown(Shutdown::Write)?;
    print!("{}", std::io::read_to_string(client)?);
    Ok(())
}
