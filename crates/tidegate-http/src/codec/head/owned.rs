//! Copies of heads, which can be kept and changed: what a proxy forwards.

use std::marker::PhantomData;
use std::ops::Range;

use bytes::{BufMut, Bytes};

use crate::codec::chars;
use crate::codec::encode::{EncodeError, FieldLines};

use super::patch::Patchable;
use super::spare_copy::CopyBox;
use super::table::slice;
use super::target;
use super::view::{Head, OfRequest, OfResponse};

/// A copy of a request head that can be kept and changed.
///
/// Fields are dropped, replaced and appended without parsing the head again; the others keep their
/// order and spelling. The framing does not change.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"GET /a HTTP/1.1\r\nhost: front\r\nX-Id: 1\r\nConnection: x-id, close\r\n\r\n";
/// let head = decoder.head(received, &mut table)?.expect("the head is complete");
///
/// let mut head = head.to_forward(|_| false)?;
/// head.replace("Host", b"back:8080")?;
/// head.append("Via", b"1.1 front")?;
/// let mut out = Vec::new();
/// head.encode(&mut out);
/// assert_eq!(out, b"GET /a HTTP/1.1\r\nhost: back:8080\r\nVia: 1.1 front\r\n\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedRequestHead = OwnedHead<OfRequest>;

/// A copy of a response head that can be kept.
pub(crate) type OwnedResponseHead = OwnedHead<OfResponse>;

/// A copy of a head: an [`OwnedRequestHead`], or that of a response.
#[derive(Debug, Clone)]
pub struct OwnedHead<K> {
    head: CopyBox,
    kind: PhantomData<K>,
}

impl<K> OwnedHead<K> {
    pub(super) fn new(head: CopyBox) -> Self {
        let kind = PhantomData;
        Self { head, kind }
    }

    /// Returns a view of the head.
    ///
    /// Its target and fields are the changed ones. Its bytes and length, and what it says about the
    /// connection, are those of the received head.
    #[must_use]
    pub fn as_head(&self) -> Head<'_, K> {
        let Patchable {
            bytes, spans, info, ..
        } = &*self.head;
        Head::new(bytes, spans, info)
    }
}

impl OwnedHead<OfRequest> {
    /// Removes all fields with this name, in any case, and returns their number.
    ///
    /// The fields of the framing are not removed.
    pub fn remove(&mut self, name: &str) -> usize {
        self.head.remove(name)
    }

    /// Gives the first field with this name a new value and removes the others; adds the field if
    /// there is none.
    ///
    /// # Errors
    ///
    /// As [`field`](crate::codec::encode::field); [`EncodeError::FieldValue`] also for an invalid
    /// `Host`; [`EncodeError::HeadTooLarge`] if the head gets more than 65,535 bytes.
    pub fn replace(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.head.replace(name, value)
    }

    /// Adds a field at the end.
    ///
    /// # Errors
    ///
    /// As [`replace`](Self::replace). [`EncodeError::FieldValue`] also for a second `Host`.
    pub fn append(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.head.append(name, value)
    }

    /// Adds those of these `fields` at the end, counted from zero, which costs one copy.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append). Fields before the wrong one may have been added.
    ///
    /// # Panics
    ///
    /// If there are not so many `lines`.
    pub fn append_lines(
        &mut self,
        lines: &FieldLines,
        fields: Range<usize>,
    ) -> Result<(), EncodeError> {
        self.head.append_lines(lines, fields)
    }

    /// Replaces the target.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Target`] if the target has none of the forms that fit the method, or a byte
    /// that must be percent-encoded; [`EncodeError::HeadTooLarge`] if the head gets more than
    /// 65,535 bytes.
    pub fn set_target(&mut self, target: &str) -> Result<(), EncodeError> {
        let bytes = target.as_bytes();
        let form = target::form(self.head.info.method, bytes);
        let form = form.filter(|_| chars::is_target(bytes));
        let form = form.ok_or(EncodeError::Target)?;
        let text = self.head.add_text(bytes)?;
        self.head.info.text = text;
        self.head.info.path_end = text.0 + target::path(bytes).len() as u16;
        self.head.info.form = form;
        Ok(())
    }

    /// Writes the head with the version 1.1.
    pub fn encode<B: BufMut>(&self, out: &mut B) {
        self.head.encode(out, &self.request_line());
    }

    /// Returns how many bytes [`encode`](Self::encode) writes.
    pub(crate) fn encoded_len(&self) -> usize {
        match self.head.text() {
            Some(text) => text.len() + 2,
            None => self.head.encoded_len(&self.request_line()),
        }
    }

    /// Returns what [`encode`](Self::encode) writes, in memory of exactly this size.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out.into()
    }

    fn request_line(&self) -> [&[u8]; 4] {
        let (bytes, info) = (&self.head.bytes, &self.head.info);
        let method = slice(bytes, (0, info.method_end));
        let target = slice(bytes, info.text);
        [method, b" ", target, b" HTTP/1.1\r\n"]
    }
}
