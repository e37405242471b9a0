//! A small server of the Redis protocol: `resp [ADDRESS]`. PING, ECHO, GET, SET, INCR, DEL.
//!
//! Good enough for `redis-cli` and `redis-benchmark -t ping,get,set,incr`.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::{Inbound, InboundContext, NetError, Nothing, Server};
use tidegate_promise::Failure;

/// The longest command that is taken.
const LONGEST: usize = 1 << 20;

/// Makes commands of bytes: arrays of bulk strings, or words on a line.
#[derive(Default)]
struct Commands {
    rest: BytesMut,
    /// Nobody knows where the next command begins.
    lost: bool,
}

impl Inbound for Commands {
    type In = Bytes;
    type Out = Vec<Bytes>;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.lost {
            return;
        }
        self.rest.extend_from_slice(&bytes);
        let why = loop {
            match command(&self.rest) {
                Ok(Some((words, used))) => {
                    self.rest.advance(used);
                    if !words.is_empty() {
                        ctx.fire_read(words);
                    }
                }
                Ok(None) if self.rest.len() > LONGEST => break "the command is too long",
                Ok(None) if self.rest.is_empty() => return self.rest = BytesMut::new(),
                Ok(None) => return,
                Err(why) => break why,
            }
        };
        self.lost = true;
        self.rest = BytesMut::new();
        ctx.fire_error(garbage(why));
    }
}

fn garbage(why: &str) -> Failure {
    NetError::Garbage(why.to_owned()).into()
}

/// A command at the beginning of `bytes`, and how long it is; `None` if it is not whole.
fn command(bytes: &[u8]) -> Result<Option<(Vec<Bytes>, usize)>, &'static str> {
    let Some((head, mut at)) = line(bytes, 0) else {
        return Ok(None);
    };
    let Some(count) = head.strip_prefix(b"*") else {
        let words = head.split(|byte| *byte == b' ');
        let words = words.filter(|word| !word.is_empty());
        return Ok(Some((words.map(Bytes::copy_from_slice).collect(), at)));
    };
    let count = number(count).ok_or("a count is a number")?;
    let mut words = Vec::new();
    for _ in 0..count {
        let Some((head, start)) = line(bytes, at) else {
            return Ok(None);
        };
        let size = head.strip_prefix(b"$").ok_or("a word begins with $")?;
        let size = number(size).ok_or("a size is a number")?;
        let Some(word) = bytes.get(start..start + size) else {
            return Ok(None);
        };
        if bytes.len() < start + size + 2 {
            return Ok(None);
        }
        words.push(Bytes::copy_from_slice(word));
        at = start + size + 2;
    }
    Ok(Some((words, at)))
}

/// The line at `from`, and where the next one begins.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    Some((line, from + end + 1))
}

fn number(digits: &[u8]) -> Option<usize> {
    let number: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number <= LONGEST).then_some(number)
}

type Store = Arc<Mutex<HashMap<Bytes, Bytes>>>;

/// Answers commands.
struct Answers {
    store: Store,
    out: BytesMut,
}

impl Answers {
    fn answer(&mut self, words: &[Bytes]) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let name = words[0].to_ascii_uppercase();
        match (name.as_slice(), &words[1..]) {
            (b"PING", []) => self.out.extend_from_slice(b"+PONG\r\n"),
            (b"PING" | b"ECHO", [text]) => bulk(&mut self.out, text),
            (b"GET", [key]) => match store.get(key) {
                Some(value) => bulk(&mut self.out, value),
                None => self.out.extend_from_slice(b"$-1\r\n"),
            },
            (b"SET", [key, value, ..]) => {
                store.insert(key.clone(), value.clone());
                self.out.extend_from_slice(b"+OK\r\n");
            }
            (b"DEL", keys) => {
                let gone = keys.iter().filter(|key| store.remove(*key).is_some());
                let count = gone.count();
                self.out
                    .extend_from_slice(format!(":{count}\r\n").as_bytes());
            }
            (b"INCR", [key]) => {
                let old = store.get(key).map_or(Some(0), |old| {
                    std::str::from_utf8(old).ok()?.parse::<i64>().ok()
                });
                let Some(new) = old.and_then(|old| old.checked_add(1)) else {
                    let why = b"-ERR value is not an integer or out of range\r\n";
                    return self.out.extend_from_slice(why);
                };
                store.insert(key.clone(), new.to_string().into());
                self.out.extend_from_slice(format!(":{new}\r\n").as_bytes());
            }
            (b"COMMAND" | b"CONFIG", _) => self.out.extend_from_slice(b"*0\r\n"),
            _ => {
                let name = String::from_utf8_lossy(&name).into_owned();
                let why = format!("-ERR unknown command '{name}', or not so many words\r\n");
                self.out.extend_from_slice(why.as_bytes());
            }
        }
    }
}

fn bulk(out: &mut BytesMut, value: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

impl Inbound for Answers {
    type In = Vec<Bytes>;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, words: Vec<Bytes>, _: &mut InboundContext<'_, Self>) {
        self.answer(&words);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // All answers of one read in one write.
        if !self.out.is_empty() {
            ctx.write(std::mem::take(&mut self.out).freeze());
            ctx.flush();
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        let why = format!("-ERR {why}\r\n");
        self.out.extend_from_slice(why.as_bytes());
        self.read_complete(ctx);
        ctx.close_when_flushed();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let group = tidegate_net::pinned("resp", 1)?;
    let store = Store::default();
    let server = Server::new(&group)
        .pipeline(move |p| {
            let store = Arc::clone(&store);
            let out = BytesMut::new();
            p.add("commands", Commands::default())
                .add("answers", Answers { store, out })
        })
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    println!("listening on {}", server.local_addr());
    if address.is_some() {
        server.closed().wait()?;
        return Ok(());
    }
    let mut client = TcpStream::connect(server.local_addr())?;
    client.write_all(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n41\r\nINCR a\r\nGET a\r\n")?;
    let mut answers = [0; 7 + 5 + 5 + 8];
    client.read_exact(&mut answers)?;
    print!("{}", String::from_utf8_lossy(&answers));
    Ok(())
}
