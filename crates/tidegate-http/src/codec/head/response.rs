//! The head of a response: its parser and its view.

use crate::codec::chars;
use crate::codec::framing::{self, BodyFraming};
use crate::codec::known::KnownField;
use crate::codec::limits::HeadLimits;
use crate::codec::method::Method;
use crate::codec::refusal::RefusalReason;
use crate::codec::version::Version;

use super::lines::bad_line_end;
use super::request::{check_repeated, connection_options};
use super::table::{HeadTable, Info, slice};
use super::view::{Head, OfResponse};

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
pub type ResponseHead<'a> = Head<'a, OfResponse>;

impl<'a> Head<'a, OfResponse> {
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

    /// Returns where the body ends, if this is the response to a request with the method `to`.
    #[must_use]
    pub fn framing(&self, to: Method<'_>) -> BodyFraming {
        BodyFraming::of_response(self.info.status, to, self.info.framing)
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
