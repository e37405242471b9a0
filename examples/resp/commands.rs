//! Commands of the Redis protocol, as they come in bytes.

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::{Inbound, InboundContext, NetError, Nothing};
use tidegate_promise::Failure;

/// The longest command that is taken.
const LONGEST: usize = 1 << 20;

/// Makes commands of bytes: arrays of bulk strings, or words on a line.
#[derive(Default)]
pub(crate) struct Commands {
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
