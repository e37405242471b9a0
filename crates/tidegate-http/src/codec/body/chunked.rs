//! The state machine of a chunked body.
//!
//! ```text
//!            ┌──────────────────────────────────────────────┐
//!            ▼                                              │
//! Size ─▶ SizeLf ─ size > 0 ─▶ Data ─▶ DataCr ─▶ DataLf ────┘
//!   │  ▲    │
//!   ▼  │    └─ size = 0 ─▶ TrailerStart ─▶ TrailerLf ─▶ Ended
//! Extension                      │                        ▲
//!                                └──▶ Trailers ───────────┘
//! ```
//!
//! Lines with sizes are read byte by byte, so that they can be split anywhere. A trailer section is
//! searched for its end, as a head is: its bytes must stay in the input until it is complete.

use std::ops::Range;

use crate::codec::head::{Expected, Scan};
use crate::codec::limits::{BodyLimits, HeadLimits};
use crate::codec::refusal::RefusalReason;

use super::event::{BodyEvent, BodyStep};
use super::trailers;

/// The most digits of a size.
const MOST_DIGITS: u8 = 16;

/// The decoder of one chunked body.
#[derive(Debug, Clone)]
pub(in crate::codec) struct Chunked {
    state: State,
    /// The bytes of data so far, including the chunk whose size was read last.
    total: u64,
    /// The bytes of extensions so far.
    extensions: u32,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// In the digits of a size.
    Size { digits: u8, size: u64 },
    /// In an extension, after the semicolon.
    Extension { size: u64 },
    /// After the CR of the line with the size.
    SizeLf { size: u64 },
    /// So many bytes of the chunk are missing.
    Data(u64),
    /// After the data.
    DataCr,
    /// After the CR that follows the data.
    DataLf,
    /// After the last chunk.
    TrailerStart,
    /// After the CR of the empty line that ends a message without trailers.
    TrailerLf,
    /// In the trailer section.
    Trailers(Scan),
    /// The message is complete.
    Ended,
}

/// The start of a line with a size.
const SIZE: State = State::Size { digits: 0, size: 0 };

impl Chunked {
    pub(super) const fn new() -> Self {
        Self {
            state: SIZE,
            total: 0,
            extensions: 0,
        }
    }

    /// Decodes up to the next event.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        limits: &BodyLimits,
    ) -> Result<BodyStep, RefusalReason> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.state {
                State::Ended => return Ok(BodyStep::new(at, BodyEvent::End)),
                _ if rest.is_empty() => return Ok(BodyStep::new(at, BodyEvent::More)),
                State::Data(missing) => {
                    let length = usize::try_from(missing).unwrap_or(usize::MAX);
                    let length = length.min(rest.len());
                    self.state = match missing - length as u64 {
                        0 => State::DataCr,
                        missing => State::Data(missing),
                    };
                    let data = at..at + length;
                    return Ok(BodyStep::new(data.end, BodyEvent::Data(data)));
                }
                State::Trailers(scan) => return self.trailers(scan, rest, at, limits),
                _ => {}
            }
            if !matches!(self.state, State::TrailerStart) || matches!(rest[0], b'\r' | b'\n') {
                self.state = self.after(rest[0], limits)?;
                at += 1;
            } else {
                self.state = State::Trailers(Scan::new());
            }
        }
    }

    /// Returns the next part of data, with the number of bytes that it uses up, if it has at most `most`
    /// bytes. Otherwise nothing is decoded.
    pub(super) fn small_data(
        &mut self,
        input: &[u8],
        limits: &BodyLimits,
        most: usize,
    ) -> Option<(usize, Range<usize>)> {
        let mut ahead = self.clone();
        let step = ahead.decode(input, limits).ok()?;
        match step.event {
            BodyEvent::Data(range) if range.len() <= most => {
                *self = ahead;
                Some((step.consumed, range))
            }
            _ => None,
        }
    }

    /// Returns `true` if the message is complete.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Returns the state after one byte outside of data and trailers.
    #[inline]
    fn after(&mut self, byte: u8, limits: &BodyLimits) -> Result<State, RefusalReason> {
        match self.state {
            State::Size { digits, size } => self.after_digit(byte, digits, size),
            State::Extension { size } => self.after_extension(byte, size, limits),
            State::SizeLf { size } => self.after_size(byte, size, limits),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(SIZE),
            State::DataCr | State::DataLf => Err(RefusalReason::ChunkEnd),
            State::TrailerStart if byte == b'\r' => Ok(State::TrailerLf),
            State::TrailerLf if byte == b'\n' => Ok(State::Ended),
            State::TrailerLf => Err(RefusalReason::BareCr),
            State::TrailerStart => Err(RefusalReason::BareLf),
            state @ (State::Data(_) | State::Trailers(_) | State::Ended) => Ok(state),
        }
    }

    fn after_digit(&mut self, byte: u8, digits: u8, size: u64) -> Result<State, RefusalReason> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if digits > 0 => return Ok(State::SizeLf { size }),
            b';' if digits > 0 => return Ok(State::Extension { size }),
            b'\n' => return Err(RefusalReason::BareLf),
            _ => return Err(RefusalReason::ChunkSize),
        };
        if digits == MOST_DIGITS {
            return Err(RefusalReason::ChunkSizeTooLong);
        }
        Ok(State::Size {
            digits: digits + 1,
            size: size << 4 | u64::from(digit),
        })
    }

    fn after_extension(
        &mut self,
        byte: u8,
        size: u64,
        limits: &BodyLimits,
    ) -> Result<State, RefusalReason> {
        match byte {
            b'\r' => return Ok(State::SizeLf { size }),
            b'\n' => return Err(RefusalReason::BareLf),
            b'\t' | b' '..=b'~' | 0x80.. => {}
            _ => return Err(RefusalReason::ChunkExtension),
        }
        if self.extensions >= limits.extensions {
            return Err(RefusalReason::ExtensionsTooLong);
        }
        self.extensions += 1;
        Ok(State::Extension { size })
    }

    fn after_size(
        &mut self,
        byte: u8,
        size: u64,
        limits: &BodyLimits,
    ) -> Result<State, RefusalReason> {
        if byte != b'\n' {
            return Err(RefusalReason::BareCr);
        }
        if i64::try_from(size).is_err() {
            return Err(RefusalReason::ChunkSizeTooLong);
        }
        self.total = self.total.saturating_add(size);
        if self.total > limits.body {
            return Err(RefusalReason::BodyTooLarge);
        }
        Ok(match size {
            0 => State::TrailerStart,
            _ => State::Data(size),
        })
    }

    /// Searches the end of the trailer section, which starts at the offset `at` of the input.
    fn trailers(
        &mut self,
        mut scan: Scan,
        rest: &[u8],
        at: usize,
        limits: &BodyLimits,
    ) -> Result<BodyStep, RefusalReason> {
        let limits = HeadLimits {
            head: limits.trailers,
            ..HeadLimits::DEFAULT
        };
        let Some(end) = scan.find_end(rest, &limits, Expected::Trailers)? else {
            self.state = State::Trailers(scan);
            return Ok(BodyStep::new(at, BodyEvent::More));
        };
        trailers::check(&rest[..end])?;
        self.state = State::Ended;
        // The last two bytes are the empty line.
        let section = at..at + end - 2;
        Ok(BodyStep::new(at + end, BodyEvent::Trailers(section)))
    }
}
