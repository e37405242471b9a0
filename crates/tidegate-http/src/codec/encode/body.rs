//! Writes the framing of a body, and checks that the body keeps to it.

use bytes::BufMut;

use crate::codec::framing::BodyFraming;
use crate::codec::known::KnownField;

use super::error::EncodeError;
use super::head::{check_name, check_value, put};

/// The end of a chunked body without trailers, before which a chunk may need its CR LF.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes what surrounds the data of one body, and counts the data.
///
/// A body that is longer than declared is refused before anything is written; one that is shorter
/// is an error at the end, after which the connection must be closed.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyEncoder, BodyFraming, EncodeError};
///
/// let mut out = Vec::new();
/// let mut body = BodyEncoder::new(BodyFraming::Chunked);
/// body.data(&mut out, b"hello")?;
/// body.data_prefix(&mut out, 6)?; // the data itself can be sent from elsewhere
/// out.extend_from_slice(b" world");
/// body.data_suffix(&mut out);
/// body.finish(&mut out)?;
/// assert_eq!(out, b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
///
/// let mut body = BodyEncoder::new(BodyFraming::Length(3));
/// assert_eq!(body.data(&mut out, b"four"), Err(EncodeError::BodyTooLong));
/// assert_eq!(body.finish(&mut out), Err(EncodeError::BodyTooShort));
/// # Ok::<(), EncodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyEncoder {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes are missing.
    Length(u64),
    /// Chunks; `true` if the CR LF of the last chunk is not written yet.
    Chunked(bool),
    UntilClose,
    Finished,
}

impl BodyEncoder {
    /// Creates the encoder of a body with this framing.
    #[must_use]
    pub const fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Empty => State::Length(0),
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Chunked(false),
            BodyFraming::UntilClose | BodyFraming::Tunnel => State::UntilClose,
        };
        Self { state }
    }

    /// Writes what precedes `length` bytes of data: the line with the size of a chunk, or nothing.
    /// The caller then writes the data itself.
    ///
    /// A length of zero writes nothing: an empty chunk would end the body.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BodyTooLong`] if more data follows than was declared,
    /// [`EncodeError::Finished`] after the end.
    pub fn data_prefix<B: BufMut>(
        &mut self,
        out: &mut B,
        length: usize,
    ) -> Result<(), EncodeError> {
        match self.state {
            State::Finished => return Err(EncodeError::Finished),
            State::Length(missing) => {
                let left = missing.checked_sub(length as u64);
                self.state = State::Length(left.ok_or(EncodeError::BodyTooLong)?);
            }
            State::Chunked(open) if length > 0 => {
                out.put_slice(line_end(open));
                out.put_slice(size_line(length as u64, &mut [0; 18]));
                self.state = State::Chunked(true);
            }
            State::Chunked(_) | State::UntilClose => {}
        }
        Ok(())
    }

    /// Writes what follows the data of [`data_prefix`](Self::data_prefix): the CR LF of a chunk, or
    /// nothing. Without this call it is written with the next chunk or the end, and a client that
    /// parses whole chunks waits until then.
    pub fn data_suffix<B: BufMut>(&mut self, out: &mut B) {
        if let State::Chunked(open) = self.state {
            out.put_slice(line_end(open));
            self.state = State::Chunked(false);
        }
    }

    /// Writes data, what precedes it and what follows it.
    ///
    /// # Errors
    ///
    /// As [`data_prefix`](Self::data_prefix).
    pub fn data<B: BufMut>(&mut self, out: &mut B, data: &[u8]) -> Result<(), EncodeError> {
        self.data_prefix(out, data.len())?;
        out.put_slice(data);
        self.data_suffix(out);
        Ok(())
    }

    /// Ends the body, without trailers.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BodyTooShort`] if data is missing: the connection must be closed.
    /// [`EncodeError::Finished`] after the end.
    pub fn finish<B: BufMut>(&mut self, out: &mut B) -> Result<(), EncodeError> {
        match self.state {
            State::Length(0) | State::UntilClose => {}
            State::Length(_) => return Err(EncodeError::BodyTooShort),
            State::Chunked(open) => {
                out.put_slice(line_end(open));
                out.put_slice(LAST_CHUNK);
            }
            State::Finished => return Err(EncodeError::Finished),
        }
        self.state = State::Finished;
        Ok(())
    }

    /// Ends a chunked body with trailers.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoTrailers`] if the body is not chunked, [`EncodeError::ForbiddenTrailer`] if
    /// a field would change the framing or the meaning of the body; otherwise as
    /// [`finish`](Self::finish) and [`field`](super::field).
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_http::codec::{BodyEncoder, BodyFraming};
    ///
    /// let mut out = Vec::new();
    /// let mut body = BodyEncoder::new(BodyFraming::Chunked);
    /// body.finish_with_trailers(&mut out, &[("Checksum", b"17")])?;
    /// assert_eq!(out, b"0\r\nChecksum: 17\r\n\r\n");
    /// # Ok::<(), tidegate_http::codec::EncodeError>(())
    /// ```
    pub fn finish_with_trailers<B: BufMut>(
        &mut self,
        out: &mut B,
        trailers: &[(&str, &[u8])],
    ) -> Result<(), EncodeError> {
        let State::Chunked(open) = self.state else {
            return Err(match self.state {
                State::Finished => EncodeError::Finished,
                _ => EncodeError::NoTrailers,
            });
        };
        for (name, value) in trailers {
            if is_forbidden_trailer(name.as_bytes()) {
                return Err(EncodeError::ForbiddenTrailer);
            }
            check_name(name.as_bytes())?;
            check_value(value)?;
        }
        put(out, &[line_end(open), b"0\r\n"]);
        for (name, value) in trailers {
            put(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
        }
        put(out, &[b"\r\n"]);
        self.state = State::Finished;
        Ok(())
    }
}

/// Returns the end of the previous chunk, if it has not been written.
const fn line_end(open: bool) -> &'static [u8] {
    match open {
        true => b"\r\n",
        false => b"",
    }
}

/// Returns the line with the size of a chunk.
fn size_line(mut size: u64, memory: &mut [u8; 18]) -> &[u8] {
    let (digits, end) = memory.split_at_mut(16);
    end.copy_from_slice(b"\r\n");
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(size & 15) as usize];
        size >>= 4;
        at -= 1;
        if size == 0 {
            break;
        }
    }
    &memory[at..]
}

/// Returns `true` for a field that must not come after the body: it would change the framing, or
/// the meaning of bytes that were already processed.
pub(in crate::codec) fn is_forbidden_trailer(name: &[u8]) -> bool {
    const OTHERS: [&str; 5] = [
        "Content-Encoding",
        "Content-Range",
        "Content-Type",
        "Keep-Alive",
        "Proxy-Connection",
    ];
    let is_other = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    KnownField::of(name).is_some() || OTHERS.iter().any(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_hexadecimal() {
        for size in [1, 15, 16, 255, 4096, 0xabc_def0, u64::MAX] {
            let mut memory = [0; 18];
            let line = format!("{size:x}\r\n");
            assert_eq!(size_line(size, &mut memory), line.as_bytes());
        }
    }
}
