//! A copy of a head whose fields can be changed without parsing it again.
//!
//! The copy has the bytes of the received head. New text is appended to them, and only offsets
//! change: a field is dropped by its offsets, and a value is replaced by those of the new text.
//! Nothing that would change the framing is accepted.

use std::ops::Range;

use bytes::BufMut;

use crate::codec::encode::{EncodeError, FieldLines, check_name, check_value, put};
use crate::codec::known::KnownField;

use super::authority::Authority;
use super::fields::Fields;
use super::table::{Info, Span};

/// The most fields: their positions have eight bits.
const MOST_FIELDS: usize = 250;

/// Room for new text and new fields in a copy, without growing it.
pub(super) const ROOM: usize = 384;
pub(super) const ROOM_FIELDS: usize = 12;

/// The bytes and offsets of a copied head. It lies in a [`CopyBox`](super::spare_copy::CopyBox).
#[derive(Debug, Clone)]
pub(super) struct Patchable {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
    pub(super) info: Info,
    /// The bytes are the whole head in its order, but for the empty line at its end.
    pub(super) is_text: bool,
}

impl Patchable {
    /// Creates a copy without bytes and fields, and without memory for them.
    pub(super) const fn empty() -> Self {
        Self {
            bytes: Vec::new(),
            spans: Vec::new(),
            info: Info::EMPTY,
            is_text: false,
        }
    }

    /// Copies a head into an empty copy.
    pub(super) fn fill(&mut self, head: &[u8], received: &[Span], info: &Info) {
        // With room for what a proxy adds.
        self.bytes.reserve(head.len() + ROOM);
        self.bytes.extend_from_slice(head);
        self.spans.reserve(received.len() + ROOM_FIELDS);
        self.spans.extend_from_slice(received);
        self.info = *info;
        self.is_text = false;
    }

    /// Removes all fields with this name, and returns their number.
    pub(super) fn remove(&mut self, name: &str) -> usize {
        match is_framing(name.as_bytes()) {
            true => 0,
            false => self.drop_where(|own| own.eq_ignore_ascii_case(name.as_bytes())),
        }
    }

    /// Adds fields that were checked before.
    pub(super) fn append_lines(
        &mut self,
        lines: &FieldLines,
        fields: Range<usize>,
    ) -> Result<(), EncodeError> {
        let places = &lines.places()[fields];
        if lines.has_known() {
            // There may be one already.
            let mut parts = places.iter().map(|place| lines.parts(*place));
            return parts.try_for_each(|(name, value)| self.append(name, value));
        }
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Ok(());
        };
        let text = &lines.as_bytes()[usize::from(first.name)..last.end()];
        let start = self.bytes.len();
        let too_many = self.spans.len() + places.len() > MOST_FIELDS;
        if too_many || start + text.len() > usize::from(u16::MAX) {
            return Err(EncodeError::HeadTooLarge);
        }
        // Each of them is below the end, which fits. The text may move to the front.
        let by = (start as u16).wrapping_sub(first.name);
        self.spans.extend(places.iter().map(|place| Span {
            name: place.name.wrapping_add(by),
            name_end: place.name_end.wrapping_add(by),
            value: place.value.wrapping_add(by),
            value_end: place.value_end.wrapping_add(by),
        }));
        self.bytes.extend_from_slice(text);
        Ok(())
    }

    fn drop_where(&mut self, is_unwanted: impl Fn(&[u8]) -> bool) -> usize {
        let before = self.spans.len();
        let bytes = &self.bytes;
        self.spans.retain(|span| !is_unwanted(span.name(bytes)));
        let removed = before - self.spans.len();
        if removed > 0 {
            self.is_text = false;
            self.relocate();
        }
        removed
    }

    /// Gives the first field with this name a new value and removes the others, or adds the field.
    pub(super) fn replace(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        check(name.as_bytes(), value)?;
        let bytes = &self.bytes;
        let is_named = |span: &Span| span.name(bytes).eq_ignore_ascii_case(name.as_bytes());
        let Some(first) = self.spans.iter().position(is_named) else {
            return self.append_checked(name, value);
        };
        let (value, value_end) = self.add_text(value)?;
        let bytes = &self.bytes;
        let is_named = |span: &Span| span.name(bytes).eq_ignore_ascii_case(name.as_bytes());
        (self.spans[first].value, self.spans[first].value_end) = (value, value_end);
        let (before, mut position) = (self.spans.len(), 0);
        self.spans.retain(|span| {
            let keep = position <= first || !is_named(span);
            position += 1;
            keep
        });
        if self.spans.len() < before {
            self.relocate();
        }
        Ok(())
    }

    /// Adds a field at the end.
    pub(super) fn append(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        check(name.as_bytes(), value)?;
        self.append_checked(name, value)
    }

    fn append_checked(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        let is_host = KnownField::of(name.as_bytes()) == Some(KnownField::Host);
        if is_host && self.info.has(KnownField::Host) {
            return Err(EncodeError::FieldValue);
        }
        self.append_unchecked(name.as_bytes(), value)
    }

    /// Adds text, and returns its offsets.
    pub(super) fn add_text(&mut self, text: &[u8]) -> Result<(u16, u16), EncodeError> {
        let start = self.bytes.len();
        let end = u16::try_from(start + text.len()).map_err(|_| EncodeError::HeadTooLarge)?;
        self.bytes.extend_from_slice(text);
        self.is_text = false;
        // The start is not above the end, which fits.
        Ok((start as u16, end))
    }

    /// Writes the fields and the empty line, after a start line of these `parts`.
    pub(super) fn encode<B: BufMut>(&self, out: &mut B, parts: &[&[u8]]) {
        if self.is_text {
            return put(out, &[&self.bytes, b"\r\n"]);
        }
        put(out, parts);
        let put_text = |text: &[u8]| out.put_slice(text);
        self.fields().write_spans(|_| true, put_text);
        put(out, &[b"\r\n"]);
    }

    /// Returns how many bytes [`encode`](Self::encode) writes.
    pub(super) fn encoded_len(&self, parts: &[&[u8]]) -> usize {
        if self.is_text {
            return self.bytes.len() + 2;
        }
        let fields: usize = self.spans.iter().map(|span| span.line_len()).sum();
        let start: usize = parts.iter().map(|part| part.len()).sum();
        start + fields + 2
    }

    /// Returns the whole head in its order without the empty line at its end, if it is in memory so.
    #[inline]
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.is_text.then_some(&self.bytes)
    }

    fn fields(&self) -> Fields<'_> {
        Fields {
            bytes: &self.bytes,
            spans: &self.spans,
        }
    }

    fn append_unchecked(&mut self, name: &[u8], value: &[u8]) -> Result<(), EncodeError> {
        self.push_span(name.len(), value.len())?;
        for part in [name, b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
        if KnownField::of(name).is_some() {
            self.relocate();
        }
        Ok(())
    }

    /// Adds the offsets of a field whose line is appended next.
    #[inline]
    fn push_span(&mut self, name: usize, value: usize) -> Result<(), EncodeError> {
        let start = self.bytes.len();
        let value_start = start + name + 2;
        let value_end = value_start + value;
        if self.spans.len() >= MOST_FIELDS || value_end + 2 > usize::from(u16::MAX) {
            return Err(EncodeError::HeadTooLarge);
        }
        // Each of them is below the end, which fits.
        self.spans.push(Span {
            name: start as u16,
            name_end: (start + name) as u16,
            value: value_start as u16,
            value_end: value_end as u16,
        });
        Ok(())
    }

    fn relocate(&mut self) {
        self.info.locate_all(&self.bytes, &self.spans);
    }
}

/// Checks a field that does not belong to the framing.
fn check(name: &[u8], value: &[u8]) -> Result<(), EncodeError> {
    check_name(name)?;
    check_value(value)?;
    let is_host = KnownField::of(name) == Some(KnownField::Host);
    if is_host && Authority::parse(value).is_none() {
        return Err(EncodeError::FieldValue);
    }
    Ok(())
}

fn is_framing(name: &[u8]) -> bool {
    let known = KnownField::of(name);
    matches!(
        known,
        Some(KnownField::ContentLength | KnownField::TransferEncoding)
    )
}
