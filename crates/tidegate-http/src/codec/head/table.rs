//! The offsets of a parsed head.
//!
//! Offsets count from the first byte of the head, so that the bytes can be moved or copied without
//! parsing them again. They have 16 bits: [`HeadLimits::head`](crate::codec::HeadLimits) cannot
//! exceed that.

use crate::codec::framing::BodyFraming;
use crate::codec::known::KnownField;
use crate::codec::limits::{HeadLimits, MAX_FIELDS};
use crate::codec::method::Method;
use crate::codec::refusal::RefusalReason;
use crate::codec::version::Version;

use super::lines::lines;
use super::target::TargetForm;

/// The memory for the offsets of one head.
///
/// A table takes about 900 bytes and is used for one head at a time. Keep it on the stack of the
/// handler, or keep one per event loop; an idle connection needs none.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let mut rest = &b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"[..];
/// let mut paths = Vec::new();
/// while let Some(head) = decoder.head(rest, &mut table)? {
///     paths.push(head.path().to_string());
///     rest = &rest[head.len()..];
/// }
/// assert_eq!(paths, ["/1", "/2"]);
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Debug, Clone)]
pub struct HeadTable {
    spans: [Span; MAX_FIELDS],
    pub(super) info: Info,
}

impl HeadTable {
    /// Creates an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            spans: [Span::EMPTY; MAX_FIELDS],
            info: Info::EMPTY,
        }
    }

    /// Removes the offsets of the previous head.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.info.count = 0;
        self.info.clear_located();
        self.info.options = 0;
        self.info.expects_continue = false;
    }

    /// Parses the head at the start of `input`: its first line, which returns the offset of the next
    /// one, its fields, and the rules that concern several of them.
    #[inline(always)]
    pub(super) fn parse(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
        start_line: impl FnOnce(&[u8], &mut Info) -> Result<usize, RefusalReason>,
        check: impl FnOnce(&[u8], &mut Self) -> Result<(), RefusalReason>,
    ) -> Result<(), RefusalReason> {
        // With at most 65,535 bytes, each offset fits in 16 bits.
        let input = &input[..input.len().min(usize::from(limits.head))];
        self.clear();
        let start = start_line(input, &mut self.info)?;
        if start > usize::from(limits.start_line) + 2 {
            return Err(RefusalReason::StartLineTooLong);
        }
        let end = lines(input, start, |span, known| {
            match self.push(span, known, limits.fields) {
                true => Ok(()),
                false => Err(RefusalReason::TooManyFields),
            }
        })?;
        self.info.len = end as u16;
        check(&input[..end], self)
    }

    /// Adds a field. Returns `false` if there are `limit` fields already.
    #[inline(always)]
    pub(super) fn push(&mut self, span: Span, known: Option<KnownField>, limit: u8) -> bool {
        let count = self.info.count;
        if count >= limit {
            return false;
        }
        let Some(slot) = self.spans.get_mut(usize::from(count)) else {
            return false;
        };
        *slot = span;
        self.info.count = count + 1;
        if let Some(known) = known {
            self.info.locate(known, count);
        }
        true
    }

    /// Returns the fields in their order.
    #[inline]
    pub(super) fn spans(&self) -> &[Span] {
        // The count never exceeds the length of the array.
        self.spans
            .get(..usize::from(self.info.count))
            .unwrap_or_default()
    }
}

impl Default for HeadTable {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a field's name and value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::codec) struct Span {
    pub(super) name: u16,
    pub(super) name_end: u16,
    pub(super) value: u16,
    pub(super) value_end: u16,
}

impl Span {
    const EMPTY: Self = Self {
        name: 0,
        name_end: 0,
        value: 0,
        value_end: 0,
    };

    /// Returns the length of `Name: value` and CR LF.
    #[inline]
    pub(super) fn line_len(self) -> usize {
        let name = usize::from(self.name_end) - usize::from(self.name);
        name + usize::from(self.value_end) - usize::from(self.value) + 4
    }

    #[inline]
    pub(in crate::codec) fn name(self, bytes: &[u8]) -> &[u8] {
        slice(bytes, (self.name, self.name_end))
    }

    #[inline]
    pub(in crate::codec) fn value(self, bytes: &[u8]) -> &[u8] {
        slice(bytes, (self.value, self.value_end))
    }
}

/// Returns the bytes between two offsets of the same head.
#[inline]
pub(super) fn slice(bytes: &[u8], (start, end): (u16, u16)) -> &[u8] {
    &bytes[usize::from(start)..usize::from(end)]
}

/// What the parser found out about a head, except for the offsets of its fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    /// The bytes of the head, with the empty line at its end.
    pub(super) len: u16,
    pub(super) version: Version,
    /// Of a request: where the method ends; it starts at 0.
    pub(super) method_end: u16,
    /// Of a request, without the name of one that is not known.
    pub(super) method: Method<'static>,
    /// Of a request: the target; of a response: the reason phrase.
    pub(super) text: (u16, u16),
    /// Of a request whose target has the origin form: where the path ends.
    pub(super) path_end: u16,
    pub(super) form: TargetForm,
    /// Of a response.
    pub(super) status: u16,
    /// Of a request: its framing; of a response: the declared framing.
    pub(super) framing: BodyFraming,
    /// The options of `Connection`; see the file `connection`.
    pub(super) options: u8,
    pub(super) expects_continue: bool,
    /// The number of fields.
    count: u8,
    /// For each known field, the position of the first one plus one; zero if there is none.
    located: [u8; KnownField::COUNT],
    /// A bit for each known field of which there are several.
    repeated: u8,
}

impl Info {
    pub(super) const EMPTY: Self = Self {
        len: 0,
        version: Version::Http11,
        method_end: 0,
        method: Method::Get,
        text: (0, 0),
        path_end: 0,
        form: TargetForm::Origin,
        status: 0,
        framing: BodyFraming::Empty,
        options: 0,
        expects_continue: false,
        count: 0,
        located: [0; KnownField::COUNT],
        repeated: 0,
    };

    /// Notes that the field at `position` is `known`.
    #[inline]
    pub(super) fn locate(&mut self, known: KnownField, position: u8) {
        let slot = &mut self.located[known as usize];
        match *slot {
            0 => *slot = position + 1,
            _ => self.repeated |= 1 << known as u8,
        }
    }

    /// Locates the known fields again, after `spans` changed.
    pub(super) fn locate_all(&mut self, bytes: &[u8], spans: &[Span]) {
        self.clear_located();
        for (position, span) in (0_u8..).zip(spans) {
            if let Some(known) = KnownField::of(span.name(bytes)) {
                self.locate(known, position);
            }
        }
    }

    /// Forgets where the known fields are.
    #[inline]
    pub(super) fn clear_located(&mut self) {
        self.located = [0; KnownField::COUNT];
        self.repeated = 0;
    }

    /// Returns `true` if there is a field of this kind.
    #[inline]
    pub(super) fn has(&self, field: KnownField) -> bool {
        self.located[field as usize] != 0
    }

    /// Returns the value of the first field of this kind.
    #[inline]
    pub(super) fn known<'a>(
        &self,
        known: KnownField,
        bytes: &'a [u8],
        spans: &[Span],
    ) -> Option<&'a [u8]> {
        self.span(known, spans).map(|span| span.value(bytes))
    }

    /// Returns the offsets of the first field of this kind.
    #[inline]
    pub(super) fn span(&self, known: KnownField, spans: &[Span]) -> Option<Span> {
        let position = self.located[known as usize].checked_sub(1)?;
        spans.get(usize::from(position)).copied()
    }

    /// Returns `true` if there are several fields of this kind.
    #[inline]
    pub(super) fn is_repeated(&self, known: KnownField) -> bool {
        self.repeated & (1 << known as u8) != 0
    }
}
