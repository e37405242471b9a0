//! The copy of a request's head that a proxy passes on, made in one pass.
//!
//! The copy is text that can be sent: what is appended to it follows, and nothing has to be put
//! together once more.

use crate::codec::encode::EncodeError;
use crate::codec::known::KnownField;

use super::fields::Fields;
use super::hop_by_hop::HopByHop;
use super::patch::{Patchable, ROOM, ROOM_FIELDS};
use super::spare_copy::{self, CopyBox};
use super::table::{Info, Span, slice};

/// Copies a request's head without the fields of its connection and without those whose name is
/// unwanted. Fields that the parser locates are always wanted.
pub(super) fn copy(
    head: Fields<'_>,
    info: &Info,
    mut is_unwanted: impl FnMut(&[u8]) -> bool,
) -> Result<CopyBox, EncodeError> {
    let Fields {
        bytes: from,
        spans: received,
    } = head;
    let hop_by_hop = HopByHop::new(from, received, info);
    let mut copy = Copy::new(from, received.len(), info);
    for span in received {
        let name = span.name(from);
        let known = KnownField::of_token(name);
        if hop_by_hop.contains(name, known) || known.is_none() && is_unwanted(name) {
            continue;
        }
        match head.is_plain(*span) {
            true => copy.line(*span, known),
            false => copy.parts(*span, known),
        }
    }
    copy.end()
}

/// A copy that is being made.
struct Copy<'a> {
    from: &'a [u8],
    to: Box<Patchable>,
    /// What is copied next: neighbours are copied together.
    run: std::ops::Range<usize>,
}

impl<'a> Copy<'a> {
    /// Begins with the request line.
    fn new(from: &'a [u8], fields: usize, info: &Info) -> Self {
        const VERSION: &[u8] = b" HTTP/1.1\r\n";
        let mut to = spare_copy::take();
        to.bytes.reserve(from.len() + ROOM);
        to.spans.reserve(fields + ROOM_FIELDS);
        to.info = *info;
        to.info.clear_located();
        to.is_text = true;
        let (target, line_end) = (info.text, usize::from(info.text.1) + VERSION.len());
        let start = info.method_end + 1;
        let is_plain =
            target.0 == start && from.get(usize::from(target.1)..line_end) == Some(VERSION);
        let run = match is_plain {
            true => 0..line_end,
            false => {
                let method = slice(from, (0, info.method_end));
                for part in [method, b" ", slice(from, target), VERSION] {
                    to.bytes.extend_from_slice(part);
                }
                to.info.text = (start, start + (target.1 - target.0));
                to.info.path_end = start + info.path_end.saturating_sub(target.0);
                0..0
            }
        };
        Self { from, to, run }
    }

    /// Adds a line as it was received.
    #[inline]
    fn line(&mut self, span: Span, known: Option<KnownField>) {
        let start = usize::from(span.name);
        if self.run.end != start {
            self.flush();
            self.run = start..start;
        }
        let at = self.to.bytes.len() + self.run.len();
        self.run.end = usize::from(span.value_end) + 2;
        self.add(span, at, usize::from(span.value - span.name), known);
    }

    /// Adds a field with other spaces than usual.
    fn parts(&mut self, span: Span, known: Option<KnownField>) {
        self.flush();
        let at = self.to.bytes.len();
        for part in [span.name(self.from), b": ", span.value(self.from), b"\r\n"] {
            self.to.bytes.extend_from_slice(part);
        }
        let name = usize::from(span.name_end - span.name);
        self.add(span, at, name + 2, known);
    }

    /// Adds the offsets of a field that is at `at`, with its value `value` bytes behind that.
    #[inline]
    fn add(&mut self, span: Span, at: usize, value: usize, known: Option<KnownField>) {
        if let Some(known) = known {
            // There are at most 250.
            self.to.info.locate(known, self.to.spans.len() as u8);
        }
        let length = usize::from(span.value_end - span.value);
        // What does not fit is refused at the end.
        self.to.spans.push(Span {
            name: at as u16,
            name_end: (at + usize::from(span.name_end - span.name)) as u16,
            value: (at + value) as u16,
            value_end: (at + value + length) as u16,
        });
    }

    fn flush(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.to.bytes.extend_from_slice(&self.from[run]);
    }

    fn end(mut self) -> Result<CopyBox, EncodeError> {
        self.flush();
        match u16::try_from(self.to.bytes.len()) {
            Ok(length) => {
                self.to.info.len = length;
                Ok(CopyBox::new(self.to))
            }
            Err(_) => Err(EncodeError::HeadTooLarge),
        }
    }
}
