//! A copy of a head whose fields can be changed without parsing it again.
//!
//! The copy has the bytes of the received head. New text is appended to them, and only offsets
//! change: a field is dropped by its offsets, and a value is replaced by those of the new text.
//! Nothing that would change the framing is accepted, except through [`Patchable::set_framing`].

use bytes::BufMut;

use crate::codec::chars;
use crate::codec::encode::{self, EncodeError, check_name, check_value, put};
use crate::codec::framing::BodyFraming;
use crate::codec::known::KnownField;

use super::authority::Authority;
use super::lines::field;
use super::table::{Info, Span};

/// The most fields: their positions have eight bits.
const MOST_FIELDS: usize = 250;

/// Room for new text and new fields in a copy, without growing it.
const ROOM: usize = 384;
const ROOM_FIELDS: usize = 12;

/// The bytes and offsets of a copied head.
#[derive(Debug, Clone)]
pub(super) struct Patchable {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
    pub(super) info: Info,
}

impl Patchable {
    pub(super) fn new(head: &[u8], received: &[Span], info: &Info) -> Self {
        // With room for what a proxy adds.
        let mut bytes = Vec::with_capacity(head.len() + ROOM);
        bytes.extend_from_slice(head);
        let mut spans = Vec::with_capacity(received.len() + ROOM_FIELDS);
        spans.extend_from_slice(received);
        Self {
            bytes,
            spans,
            info: *info,
        }
    }

    /// Removes all fields with this name, and returns their number.
    pub(super) fn remove(&mut self, name: &str) -> usize {
        match is_framing(name.as_bytes()) {
            true => 0,
            false => self.drop_where(|own| own.eq_ignore_ascii_case(name.as_bytes())),
        }
    }

    /// Removes the fields whose name meets the condition, except for those of the framing. Returns
    /// their number.
    pub(super) fn remove_where(&mut self, is_unwanted: impl Fn(&str) -> bool) -> usize {
        self.drop_where(|name| is_unwanted(chars::ascii(name)) && !is_framing(name))
    }

    fn drop_where(&mut self, is_unwanted: impl Fn(&[u8]) -> bool) -> usize {
        let before = self.spans.len();
        let bytes = &self.bytes;
        self.spans.retain(|span| !is_unwanted(span.name(bytes)));
        let removed = before - self.spans.len();
        if removed > 0 {
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
            return self.append(name, value);
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
        let is_host = KnownField::of(name.as_bytes()) == Some(KnownField::Host);
        let bytes = &self.bytes;
        let has_host = |span: &Span| KnownField::of(span.name(bytes)) == Some(KnownField::Host);
        if is_host && self.spans.iter().any(has_host) {
            return Err(EncodeError::FieldValue);
        }
        self.append_unchecked(name.as_bytes(), value)
    }

    /// Removes the fields that belong to one connection: `Connection`, the fields that it names,
    /// `Keep-Alive`, `Proxy-Connection`, `TE` and `Upgrade`.
    ///
    /// A peer that names `Host` or a field of the framing in `Connection` does not get it removed.
    pub(super) fn remove_hop_by_hop(&mut self) {
        let bytes = &self.bytes;
        let is_connection =
            |span: &&Span| KnownField::of(span.name(bytes)) == Some(KnownField::Connection);
        let values = self
            .spans
            .iter()
            .copied()
            .filter(|span| is_connection(&span));
        let values: Vec<Span> = values.collect();
        let is_named = |name: &[u8]| {
            let mut options = values
                .iter()
                .flat_map(|span| chars::list(span.value(bytes)));
            options.any(|option| option.eq_ignore_ascii_case(name))
        };
        self.spans.retain(|span| {
            let name = span.name(bytes);
            match KnownField::of(name) {
                Some(KnownField::Connection | KnownField::Te | KnownField::Upgrade) => false,
                Some(_) => true,
                None => {
                    !name.eq_ignore_ascii_case(b"Keep-Alive")
                        && !name.eq_ignore_ascii_case(b"Proxy-Connection")
                        && !is_named(name)
                }
            }
        });
        self.relocate();
    }

    /// Replaces the fields of the framing.
    pub(super) fn set_framing(&mut self, framing: BodyFraming) -> Result<(), EncodeError> {
        let mut line = [0_u8; 64];
        let mut rest = &mut line[..];
        encode::framing(&mut rest, framing)?;
        let written = 64 - rest.len();
        if let Some(field) = field(&line[..written]) {
            let value = field.value.trim_ascii_end();
            self.append_unchecked(field.name.as_bytes(), value)?;
        }
        // All but the one that was appended.
        let (bytes, mut left) = (&self.bytes, self.spans.len());
        self.spans.retain(|span| {
            left -= 1;
            !is_framing(span.name(bytes)) || (left == 0 && written > 0)
        });
        self.info.framing = framing;
        self.relocate();
        Ok(())
    }

    /// Adds text, and returns its offsets.
    pub(super) fn add_text(&mut self, text: &[u8]) -> Result<(u16, u16), EncodeError> {
        let start = self.bytes.len();
        let end = u16::try_from(start + text.len()).map_err(|_| EncodeError::HeadTooLarge)?;
        self.bytes.extend_from_slice(text);
        // The start is not above the end, which fits.
        Ok((start as u16, end))
    }

    /// Writes the fields and the empty line, after a start line of these `parts`.
    pub(super) fn encode<B: BufMut>(
        &self,
        out: &mut B,
        parts: &[&[u8]],
    ) -> Result<(), EncodeError> {
        let spans = self.spans.iter();
        let each = |span: &Span| span.name(&self.bytes).len() + span.value(&self.bytes).len() + 4;
        let fields: usize = spans.map(each).sum();
        let start: usize = parts.iter().map(|part| part.len()).sum();
        if out.remaining_mut() < start + fields + 2 {
            return Err(EncodeError::Full);
        }
        put(out, parts)?;
        for span in &self.spans {
            let (name, value) = (span.name(&self.bytes), span.value(&self.bytes));
            put(out, &[name, b": ", value, b"\r\n"])?;
        }
        put(out, &[b"\r\n"])
    }

    fn append_unchecked(&mut self, name: &[u8], value: &[u8]) -> Result<(), EncodeError> {
        let length = self.bytes.len() + name.len() + value.len();
        if self.spans.len() >= MOST_FIELDS || length > usize::from(u16::MAX) {
            return Err(EncodeError::HeadTooLarge);
        }
        let is_known = KnownField::of(name).is_some();
        let (name, name_end) = self.add_text(name)?;
        let (value, value_end) = self.add_text(value)?;
        self.spans.push(Span {
            name,
            name_end,
            value,
            value_end,
        });
        if is_known {
            self.relocate();
        }
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
