//! The head of a response: its parser and its view.

use std::fmt;

use crate::codec::chars;
use crate::codec::framing::{self, BodyFraming};
use crate::codec::known::KnownField;
use crate::codec::limits::HeadLimits;
use crate::codec::method::Method;
use crate::codec::refusal::RefusalReason;
use crate::codec::version::Version;

use super::connection::{self, UPGRADE};
use super::fields::{Field, Fields};
use super::hop_by_hop::HopByHop;
use super::lines::bad_line_end;
use super::owned::OwnedResponseHead;
use super::request::{check_repeated, connection_options};
use super::table::{HeadTable, Info, Span, slice};

/// The head of a response, borrowed from the received bytes.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{
///     BodyFraming, BodyLimits, HeadLimits, HeadTable, Method, ResponseDecoder,
/// };
///
/// let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
/// let head = decoder.head(received, &mut table, Method::Get)?.expect("the head is complete");
///
/// assert_eq!((head.status(), head.reason()), (404, &b"Not Found"[..]));
/// assert_eq!(head.framing(Method::Get), BodyFraming::Length(2));
/// assert_eq!(head.framing(Method::Head), BodyFraming::Empty);
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Clone, Copy)]
pub struct ResponseHead<'a> {
    fields: Fields<'a>,
    info: &'a Info,
}

impl<'a> ResponseHead<'a> {
    /// Parses the head at the start of `input` into `table`.
    ///
    /// If `input` contains no complete head, the result is an error that means nothing.
    pub(in crate::codec) fn parse(
        input: &[u8],
        limits: &HeadLimits,
        table: &mut HeadTable,
    ) -> Result<(), RefusalReason> {
        table.parse(input, limits, status_line, check)
    }

    /// Returns the head at the start of `input`, which was parsed into `table`.
    #[inline]
    pub(in crate::codec) fn of(input: &'a [u8], table: &'a HeadTable) -> Self {
        let bytes = &input[..usize::from(table.info.len)];
        Self::new(bytes, table.spans(), &table.info)
    }

    pub(super) fn new(bytes: &'a [u8], spans: &'a [Span], info: &'a Info) -> Self {
        let fields = Fields { bytes, spans };
        Self { fields, info }
    }

    /// Returns the number of received bytes that the head takes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no head is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.info.len)
    }

    /// Returns the received bytes of the head, with the empty line at its end.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        &self.fields.bytes[..self.len()]
    }

    /// Returns the status, from 100 to 999.
    #[inline]
    #[must_use]
    pub fn status(&self) -> u16 {
        self.info.status
    }

    /// Returns the reason phrase, which may be empty.
    #[must_use]
    pub fn reason(&self) -> &'a [u8] {
        slice(self.fields.bytes, self.info.text)
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.info.version
    }

    /// Returns the fields, in their original order and spelling.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        self.fields
    }

    /// Returns the fields that a proxy passes on: all but `Connection`, the fields that it names,
    /// `Keep-Alive`, `Proxy-Connection`, `TE` and `Upgrade`, which belong to one connection. `Host` and
    /// the fields of the framing are passed on, even if `Connection` names them.
    pub fn end_to_end(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        HopByHop::without(self.fields, self.info)
    }

    /// Returns the value of the first field with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.get(name)
    }

    /// Returns the values of all fields with this name, in any case.
    pub fn get_all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.fields.get_all(name)
    }

    /// Returns the value of the first field of this kind, without a search.
    #[must_use]
    pub fn known(&self, field: KnownField) -> Option<&'a [u8]> {
        self.info.known(field, self.fields.bytes, self.fields.spans)
    }

    /// Returns where the body ends, if this is the response to a request with the method `to`.
    #[must_use]
    pub fn framing(&self, to: Method<'_>) -> BodyFraming {
        BodyFraming::of_response(self.info.status, to, self.info.framing)
    }

    /// Returns `true` if the server keeps the connection open after a body whose end is known.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        connection::keeps_alive(self.info.version, self.info.options)
    }

    /// Returns the protocols to which the server changes or could change.
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        let asked = self.info.options & UPGRADE != 0 && self.info.version == Version::Http11;
        self.known(KnownField::Upgrade).filter(|_| asked)
    }

    /// Copies the head, so that it can be kept.
    pub(crate) fn to_owned(self) -> OwnedResponseHead {
        OwnedResponseHead::new(self.fields.bytes, self.fields.spans, self.info)
    }
}

impl fmt::Debug for ResponseHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHead")
            .field("status", &self.status())
            .field("version", &self.version())
            .field("fields", &self.fields())
            .finish()
    }
}

/// Parses the status line, and returns the offset of the next line.
fn status_line(input: &[u8], info: &mut Info) -> Result<usize, RefusalReason> {
    let version = match input.first_chunk() {
        Some(b"HTTP/1.1 ") => Version::Http11,
        Some(b"HTTP/1.0 ") => Version::Http10,
        _ => return Err(bad_version(input)),
    };
    let Some((&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'], rest)) =
        input[9..].split_first_chunk()
    else {
        return Err(RefusalReason::StatusLine);
    };
    // The space after the status may be missing together with the reason.
    let (start, reason) = match rest {
        [b' ', reason @ ..] => (13, reason),
        [b'\r', ..] => (12, rest),
        _ => return Err(RefusalReason::StatusLine),
    };
    let length = chars::value_run(reason);
    let (_, [b'\r', b'\n', ..]) = reason.split_at(length) else {
        return Err(bad_line_end(&reason[length..]));
    };
    let digit = |byte: u8| u16::from(byte - b'0');
    info.status = digit(a) * 100 + digit(b) * 10 + digit(c);
    info.version = version;
    info.text = (start, start + length as u16);
    Ok(usize::from(start) + length + 2)
}

/// Returns the rule that the start of a status line breaks, which should be a version.
#[cold]
fn bad_version(input: &[u8]) -> RefusalReason {
    match input {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b' ', ..]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            RefusalReason::VersionNotSupported
        }
        [b'H', b'T', b'T', b'P', b'/', ..] => RefusalReason::Version,
        _ => RefusalReason::StatusLine,
    }
}

/// Checks the rules that concern several parts of the head, and notes what follows from them.
fn check(bytes: &[u8], table: &mut HeadTable) -> Result<(), RefusalReason> {
    let spans = table.spans();
    let info = &table.info;
    let known = |field| info.known(field, bytes, spans);
    let (length, coding) = (KnownField::ContentLength, KnownField::TransferEncoding);
    check_repeated(info)?;
    let (version, status) = (info.version, info.status);
    let framing = framing::declared_by_response(version, status, known(length), known(coding))?;
    let mut options = 0;
    if let Some(first) = known(KnownField::Connection) {
        options = connection_options(info, first, bytes, spans)?;
    }
    table.info.framing = framing;
    table.info.options = options;
    Ok(())
}
