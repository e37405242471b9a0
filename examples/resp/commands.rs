//! A decoder for commands of the Redis protocol.

use bytes::{Buf, Bytes, BytesMut};
use tidegate::net::{Inbound, InboundContext, NetError, Nothing};
use tidegate::promise::Failure;

/// The length of the longest accepted command.
const LONGEST: usize = 1 << 20;

/// Decodes bytes into commands: arrays of bulk strings, or words on a line.
#[derive(Default)]
pub(crate) struct Commands {
    rest: BytesMut,
    /// `true` after an error: the start of the next command is unknown.
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
    NetError::ProtocolViolation(why.to_owned()).into()
}

/// Returns the command at the start of `bytes` and its length; `None` if it is incomplete.
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

/// Returns the line at `from`, and the position of the next line.
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
