//! Copies of heads, which can be kept and changed: what a proxy forwards.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::chars;
use crate::codec::encode::{EncodeError, FieldLines, status_line};
use crate::codec::framing::BodyFraming;
use crate::codec::limits::HeadLimits;
use crate::codec::method::MethodCode;

use super::patch::Patchable;
use super::request::RequestHead;
use super::response::ResponseHead;
use super::spare_copy::CopyBox;
use super::table::{HeadTable, Info, Span, slice};
use super::target;

/// A copy of a request head that can be kept and changed.
///
/// Fields are dropped, replaced and appended without parsing the head again; the others keep their
/// order and spelling. The framing changes only through [`set_framing`](Self::set_framing).
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
/// let mut head = head.to_owned();
/// head.remove_hop_by_hop();
/// head.replace("Host", b"back:8080")?;
/// head.append("Via", b"1.1 front")?;
/// let mut out = Vec::new();
/// head.encode(&mut out)?;
/// assert_eq!(out, b"GET /a HTTP/1.1\r\nhost: back:8080\r\nVia: 1.1 front\r\n\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct OwnedRequestHead {
    head: CopyBox,
}

impl OwnedRequestHead {
    pub(super) fn new(bytes: &[u8], spans: &[Span], info: &Info) -> Self {
        let head = CopyBox::of(bytes, spans, info);
        Self { head }
    }

    pub(super) fn of(head: CopyBox) -> Self {
        Self { head }
    }

    /// Returns a view of the head.
    ///
    /// Its target and fields are the changed ones. Its bytes and length, and what it says about the
    /// connection, are those of the received head.
    #[must_use]
    pub fn as_head(&self) -> RequestHead<'_> {
        let Patchable {
            bytes, spans, info, ..
        } = &*self.head;
        RequestHead::new(bytes, spans, info)
    }

    /// Removes all fields with this name, in any case, and returns their number.
    ///
    /// The fields of the framing are not removed: see [`set_framing`](Self::set_framing).
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

    /// Replaces the fields that declare where the body ends.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Framing`] for a framing that only responses have;
    /// [`EncodeError::HeadTooLarge`] if the head gets more than 65,535 bytes.
    pub fn set_framing(&mut self, framing: BodyFraming) -> Result<(), EncodeError> {
        let is_connect = self.head.info.method == MethodCode::Connect;
        match framing {
            BodyFraming::UntilClose | BodyFraming::Tunnel => Err(EncodeError::Framing),
            _ if is_connect && !framing.is_empty() => Err(EncodeError::Framing),
            _ => self.head.set_framing(framing),
        }
    }

    /// Removes the fields that belong to one connection: `Connection`, the fields that it names,
    /// `Keep-Alive`, `Proxy-Connection`, `TE` and `Upgrade`.
    ///
    /// `Host` and the fields of the framing stay, even if `Connection` names them.
    pub fn remove_hop_by_hop(&mut self) {
        self.head.remove_hop_by_hop();
    }

    /// Writes the head with the version 1.1.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Full`] if `out` has no room; then nothing is written.
    pub fn encode<B: BufMut>(&self, out: &mut B) -> Result<(), EncodeError> {
        self.head.encode(out, &self.request_line())
    }

    /// Writes what [`encode`](Self::encode) writes into memory that grows, at less cost.
    pub(crate) fn write_to(&self, out: &mut BytesMut) {
        if let Some(text) = self.head.text() {
            out.extend_from_slice(text);
            return out.extend_from_slice(b"\r\n");
        }
        let encoded = self.encode(out);
        debug_assert!(encoded.is_ok(), "growing memory is never full");
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
        let line = self.request_line();
        let mut out = Vec::with_capacity(self.encoded_len());
        let encoded = self.head.encode(&mut out, &line);
        debug_assert!(encoded.is_ok(), "growing memory is never full");
        out.into()
    }

    fn request_line(&self) -> [&[u8]; 4] {
        let (bytes, info) = (&self.head.bytes, &self.head.info);
        let method = slice(bytes, (0, info.method_end));
        let target = slice(bytes, info.text);
        [method, b" ", target, b" HTTP/1.1\r\n"]
    }
}

/// A copy of a response head that can be kept and changed.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyFraming, BodyLimits, HeadLimits, HeadTable, Method, ResponseDecoder};
///
/// let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"HTTP/1.0 200 Fine\r\nServer: old\r\nX-A: 1\r\n\r\n";
/// let head = decoder.head(received, &mut table, Method::Get)?.expect("the head is complete");
///
/// let mut head = head.to_owned();
/// head.remove("server");
/// head.set_framing(BodyFraming::Chunked)?;
/// let mut out = Vec::new();
/// head.encode(&mut out)?;
/// assert_eq!(out, b"HTTP/1.1 200 Fine\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct OwnedResponseHead {
    head: CopyBox,
}

impl OwnedResponseHead {
    /// Creates the head of a response with this status, its standard reason phrase and no fields. Its
    /// body ends with the connection, unless [`set_framing`](Self::set_framing) says otherwise.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Status`] if `status` does not have three digits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_http::codec::{BodyFraming, OwnedResponseHead};
    ///
    /// let mut head = OwnedResponseHead::with_status(404)?;
    /// head.append("Content-Type", b"text/plain")?;
    /// head.set_framing(BodyFraming::Length(0))?;
    /// let mut out = Vec::new();
    /// head.encode(&mut out)?;
    /// let fields = "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    /// assert_eq!(out, format!("HTTP/1.1 404 Not Found\r\n{fields}").as_bytes());
    /// # Ok::<(), tidegate_http::codec::EncodeError>(())
    /// ```
    pub fn with_status(status: u16) -> Result<Self, EncodeError> {
        let mut line = Vec::with_capacity(64);
        status_line(&mut line, status)?;
        let mut table = HeadTable::new();
        line.extend_from_slice(b"\r\n");
        let parsed = ResponseHead::parse(&line, &HeadLimits::DEFAULT, &mut table);
        parsed.map_err(|_| EncodeError::Status)?;
        Ok(ResponseHead::of(&line, &table).to_owned())
    }

    pub(super) fn new(bytes: &[u8], spans: &[Span], info: &Info) -> Self {
        let head = CopyBox::of(bytes, spans, info);
        Self { head }
    }

    /// Returns a view of the head.
    ///
    /// Its fields are the changed ones. Its bytes and length, and what it says about the
    /// connection, are those of the received head.
    #[must_use]
    pub fn as_head(&self) -> ResponseHead<'_> {
        let Patchable {
            bytes, spans, info, ..
        } = &*self.head;
        ResponseHead::new(bytes, spans, info)
    }

    /// Removes all fields with this name, in any case, and returns their number.
    ///
    /// The fields of the framing are not removed: see [`set_framing`](Self::set_framing).
    pub fn remove(&mut self, name: &str) -> usize {
        self.head.remove(name)
    }

    /// Gives the first field with this name a new value and removes the others; adds the field if
    /// there is none.
    ///
    /// # Errors
    ///
    /// As [`OwnedRequestHead::replace`].
    pub fn replace(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.head.replace(name, value)
    }

    /// Adds a field at the end.
    ///
    /// # Errors
    ///
    /// As [`OwnedRequestHead::append`].
    pub fn append(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.head.append(name, value)
    }

    /// Replaces the fields that declare where the body ends.
    ///
    /// # Errors
    ///
    /// [`EncodeError::HeadTooLarge`] if the head gets more than 65,535 bytes.
    pub fn set_framing(&mut self, framing: BodyFraming) -> Result<(), EncodeError> {
        self.head.set_framing(framing)
    }

    /// Removes the fields that belong to one connection, as
    /// [`OwnedRequestHead::remove_hop_by_hop`] does.
    pub fn remove_hop_by_hop(&mut self) {
        self.head.remove_hop_by_hop();
    }

    /// Writes the head with the version 1.1.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Full`] if `out` has no room; then nothing is written.
    pub fn encode<B: BufMut>(&self, out: &mut B) -> Result<(), EncodeError> {
        let (bytes, info) = (&self.head.bytes, &self.head.info);
        let digit = |unit: u16| b'0' + (info.status / unit % 10) as u8;
        let status = [digit(100), digit(10), digit(1), b' '];
        let reason = slice(bytes, info.text);
        let line = [b"HTTP/1.1 ", &status[..], reason, b"\r\n"];
        self.head.encode(out, &line)
    }
}
