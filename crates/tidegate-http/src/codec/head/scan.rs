//! Finds the end of a head that arrives in pieces.
//!
//! The scan remembers how far it searched, so that each byte is inspected once, however the head is
//! split. It looks at line ends only; the parser checks the rest when the head is complete.
//!
//! The outcome depends on the bytes and not on how they are split: the scan decides by positions,
//! from the first byte to the last.

use crate::codec::limits::HeadLimits;
use crate::codec::refusal::RefusalReason;
use crate::codec::{chars, probe};

const EMPTY_LINE: &[u8] = b"\r\n";

/// What the lines that the scan searches begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::codec) enum Expected {
    /// A request line.
    Request,
    /// A status line.
    Response,
    /// A field line, of a trailer section.
    Trailers,
}

/// How far a head was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::codec) struct Scan {
    searched: u16,
    /// The first line has ended.
    past_start_line: bool,
    /// An empty line before the head was ignored.
    past_empty_line: bool,
}

impl Scan {
    pub(in crate::codec) const fn new() -> Self {
        Self {
            searched: 0,
            past_start_line: false,
            past_empty_line: false,
        }
    }

    /// Returns `true` if nothing of the message was seen, not even an empty line before it.
    #[inline]
    pub(in crate::codec) const fn is_new(self) -> bool {
        self.searched == 0 && !self.past_empty_line
    }

    /// Returns `true` if a part of the head was searched.
    pub(in crate::codec) const fn has_begun(self) -> bool {
        self.searched != 0
    }

    /// Returns the length of an empty line at the start of `input`, if it is the first one before the
    /// head, and zero otherwise.
    pub(in crate::codec) fn skip_empty_line(&mut self, input: &[u8]) -> usize {
        if !self.is_new() || !input.starts_with(EMPTY_LINE) {
            return 0;
        }
        self.past_empty_line = true;
        EMPTY_LINE.len()
    }

    /// Returns the length of the head at the start of `input`, or `None` if it is not complete.
    ///
    /// `input` starts with the bytes of the previous call.
    pub(in crate::codec) fn find_end(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
        expected: Expected,
    ) -> Result<Option<usize>, RefusalReason> {
        let Some(first) = input.first() else {
            return Ok(None);
        };
        if self.is_new() && expected == Expected::Request && input == b"\r" {
            // Maybe of an empty line that is ignored.
            return Ok(None);
        }
        if !self.has_begun() {
            check_first_byte(*first, expected)?;
        }
        let window = &input[..input.len().min(usize::from(limits.head))];
        let mut at = usize::from(self.searched);
        probe::inspected(window.len().saturating_sub(at));
        while let Some(found) = window.get(at..).and_then(|rest| chars::find(rest, b'\n')) {
            let end = at + found + 1;
            // The line with its CR; the LF is not part of it.
            let line = &window[..end - 1];
            if !self.past_start_line {
                self.check_start_line(line.len(), limits, expected)?;
            }
            match line {
                [.., b'\n', b'\r'] => return Ok(Some(end)),
                [.., b'\r'] => {}
                _ => return Err(RefusalReason::BareLf),
            }
            self.past_start_line = true;
            at = end;
        }
        // The window has at most 65,535 bytes.
        self.searched = window.len() as u16;
        if !self.past_start_line {
            self.check_start_line(window.len(), limits, expected)?;
        }
        if window.len() == usize::from(limits.head) {
            return Err(too_large(expected));
        }
        Ok(None)
    }

    /// Refuses a start line whose first `length` bytes contain no LF; the last may be its CR.
    fn check_start_line(
        self,
        length: usize,
        limits: &HeadLimits,
        expected: Expected,
    ) -> Result<(), RefusalReason> {
        let limit = usize::from(limits.start_line) + 1;
        if length > limit && expected != Expected::Trailers {
            return Err(RefusalReason::StartLineTooLong);
        }
        Ok(())
    }
}

/// Refuses what cannot be a message without waiting for its end, such as a TLS handshake.
fn check_first_byte(first: u8, expected: Expected) -> Result<(), RefusalReason> {
    match (first, expected) {
        (_, Expected::Trailers) => Ok(()),
        (b'\r' | b'\n', _) => Err(RefusalReason::EmptyLine),
        (b'H', Expected::Response) => Ok(()),
        (_, Expected::Response) => Err(RefusalReason::StatusLine),
        (_, Expected::Request) if chars::is(first, chars::TOKEN) => Ok(()),
        (_, Expected::Request) => Err(RefusalReason::Method),
    }
}

fn too_large(expected: Expected) -> RefusalReason {
    match expected {
        Expected::Trailers => RefusalReason::TrailersTooLarge,
        Expected::Request | Expected::Response => RefusalReason::HeadTooLarge,
    }
}
