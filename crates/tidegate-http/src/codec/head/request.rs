//! The head of a request: its parser and its view.

use crate::codec::chars::{self, PATH, QUERY, TOKEN};
use crate::codec::encode::EncodeError;
use crate::codec::framing::{self, BodyFraming};
use crate::codec::known::KnownField;
use crate::codec::limits::HeadLimits;
use crate::codec::method::Method;
use crate::codec::refusal::RefusalReason;
use crate::codec::version::Version;

use super::authority::Authority;
use super::connection;
use super::fields::Fields;
use super::forward;
use super::lines::bad_line_end;
use super::owned::OwnedRequestHead;
use super::table::{HeadTable, Info, Span, slice};
use super::target::{self, TargetForm};
use super::view::{Head, OfRequest};

/// The head of a request, borrowed from the received bytes.
///
/// Every head that a decoder returns obeys the rules of the codec: its fields agree on one framing,
/// and it has a valid `Host` if its version is 1.1.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{
///     BodyFraming, BodyLimits, HeadLimits, HeadTable, KnownField, RequestDecoder, Version,
/// };
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"PUT /a HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\nConnection: close\r\n\r\nxyz";
/// let head = decoder.head(received, &mut table)?.expect("the head is complete");
///
/// assert_eq!((head.method().as_str(), head.path(), head.version()), ("PUT", "/a", Version::Http11));
/// assert_eq!(head.known(KnownField::Host), Some(&b"b"[..]));
/// assert_eq!(head.framing(), BodyFraming::Length(3));
/// assert!(!head.keep_alive());
/// assert_eq!(&received[head.len()..], b"xyz");
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
pub type RequestHead<'a> = Head<'a, OfRequest>;

impl<'a> Head<'a, OfRequest> {
    /// Parses the head at the start of `input` into `table`.
    ///
    /// If `input` contains no complete head, the result is an error that means nothing.
    #[inline]
    pub(in crate::codec) fn parse(
        input: &[u8],
        limits: &HeadLimits,
        table: &mut HeadTable,
    ) -> Result<(), RefusalReason> {
        table.parse(input, limits, request_line, check)
    }

    /// Returns the method.
    #[inline]
    #[must_use]
    pub fn method(&self) -> Method<'a> {
        match self.info.method {
            Method::Other(_) => {
                let name = slice(self.fields.bytes, (0, self.info.method_end));
                Method::Other(chars::ascii(name))
            }
            known => known,
        }
    }

    /// Returns the target as the peer sent it.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &'a str {
        chars::ascii(slice(self.fields.bytes, self.info.text))
    }

    /// Returns the form of the target.
    #[must_use]
    pub fn form(&self) -> TargetForm {
        self.info.form
    }

    /// Returns the path of the target as the peer sent it: percent-encoded, with any dots and double
    /// slashes.
    ///
    /// The path is `*` in asterisk form, and empty in authority form.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &'a str {
        chars::ascii(self.path_bytes())
    }

    /// Returns the path as bytes, which are ASCII.
    ///
    /// This is cheaper than [`path`](Self::path), which checks them once more.
    #[inline]
    #[must_use]
    pub fn path_bytes(&self) -> &'a [u8] {
        match self.info.form {
            TargetForm::Origin => slice(self.fields.bytes, (self.info.text.0, self.info.path_end)),
            _ => self.rare_path(),
        }
    }

    /// Returns the part of the target after the first question mark.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        let target = slice(self.fields.bytes, self.info.text);
        let rest = match self.info.form {
            TargetForm::Origin => slice(self.fields.bytes, (self.info.path_end, self.info.text.1)),
            TargetForm::Absolute => target::absolute(target)?.rest,
            TargetForm::Authority | TargetForm::Asterisk => return None,
        };
        let start = chars::find(rest, b'?')?;
        Some(chars::ascii(&rest[start + 1..]))
    }

    /// Returns the host and the port that the request is for: of the target, otherwise of `Host`.
    #[must_use]
    pub fn authority(&self) -> Option<&'a str> {
        let target = slice(self.fields.bytes, self.info.text);
        let text = match self.info.form {
            TargetForm::Absolute => target::absolute(target)?.authority_text,
            TargetForm::Authority => target,
            TargetForm::Origin | TargetForm::Asterisk => self.known(KnownField::Host)?,
        };
        Some(chars::ascii(text))
    }

    /// Returns where the body ends.
    #[inline]
    #[must_use]
    pub fn framing(&self) -> BodyFraming {
        self.info.framing
    }

    /// Returns `true` if the client waits for `100 Continue` before it sends the body.
    #[inline]
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.info.expects_continue && !self.info.framing.is_empty()
    }

    /// Copies the head with the fields that are [passed on](Head::end_to_end), without those whose name
    /// is unwanted. Fields that the parser [locates](KnownField) are always wanted.
    ///
    /// This is faster than to copy the head and to remove them.
    ///
    /// # Errors
    ///
    /// [`EncodeError::HeadTooLarge`] if the head has no space behind many colons and becomes too
    /// large with it.
    pub fn to_forward(
        &self,
        is_unwanted: impl FnMut(&[u8]) -> bool,
    ) -> Result<OwnedRequestHead, EncodeError> {
        forward::copy(self.fields, self.info, is_unwanted).map(OwnedRequestHead::new)
    }

    /// Returns the path of a target that does not have the origin form.
    fn rare_path(&self) -> &'a [u8] {
        let target = slice(self.fields.bytes, self.info.text);
        match self.info.form {
            TargetForm::Authority => b"",
            TargetForm::Absolute => {
                let rest = target::absolute(target).map_or(&b""[..], |parts| parts.rest);
                match target::path(rest) {
                    b"" => b"/",
                    path => path,
                }
            }
            TargetForm::Origin | TargetForm::Asterisk => target::path(target),
        }
    }
}

/// The start of most requests as a word: one comparison instead of one for each byte.
const GET: u32 = u32::from_le_bytes(*b"GET ");
const HTTP11: u64 = u64::from_le_bytes(*b"HTTP/1.1");

/// Parses the request line, and returns the offset of the next line.
#[inline(always)]
fn request_line(input: &[u8], info: &mut Info) -> Result<usize, RefusalReason> {
    let (method, length) = match input.first_chunk() {
        Some(word) if u32::from_le_bytes(*word) == GET => (Method::Get, 3),
        _ => method(input)?,
    };
    let text = &input[length + 1..];
    let path = chars::run(text, PATH);
    let target = match text.get(path) {
        Some(b'?') => path + chars::run(&text[path..], QUERY),
        _ => path,
    };
    let Some((b' ', rest)) = text.get(target..).and_then(<[u8]>::split_first) else {
        return Err(bad_target(text, target));
    };
    let version = match rest.split_first_chunk() {
        Some((word, [b'\r', b'\n', ..])) if u64::from_le_bytes(*word) == HTTP11 => Version::Http11,
        Some((b"HTTP/1.0", [b'\r', b'\n', ..])) => Version::Http10,
        _ => return Err(bad_version(rest)),
    };
    let Some(form) = target::form(method, &text[..target]) else {
        return Err(bad_target(text, 0));
    };
    info.method = method;
    info.method_end = length as u16;
    info.text = (length as u16 + 1, (length + 1 + target) as u16);
    info.path_end = (length + 1 + path) as u16;
    info.form = form;
    info.version = version;
    Ok(length + 1 + target + 1 + b"HTTP/1.1\r\n".len())
}

/// Parses a method that a space follows, and returns its length too.
fn method(input: &[u8]) -> Result<(Method<'static>, usize), RefusalReason> {
    let length = chars::run(input, TOKEN);
    match input.get(length) {
        Some(b' ') if length > 0 => Ok((Method::without_name(&input[..length]), length)),
        None | Some(b'\r') => Err(RefusalReason::RequestLine),
        _ => Err(RefusalReason::Method),
    }
}

/// Returns the rule that a target breaks of which `length` bytes are allowed.
#[cold]
fn bad_target(text: &[u8], length: usize) -> RefusalReason {
    match text.get(length..).unwrap_or_default() {
        // No version follows, or the target is empty.
        [] | [b'\r', b'\n', ..] => RefusalReason::RequestLine,
        [b' ', ..] if length == 0 => RefusalReason::RequestLine,
        [b' ' | b'\t', ..] => RefusalReason::Target,
        [first, ..] if chars::is(*first, chars::VALUE) => RefusalReason::Target,
        rest => bad_line_end(rest),
    }
}

/// Returns the rule that the end of a request line breaks, which should be a version.
#[cold]
pub(super) fn bad_version(rest: &[u8]) -> RefusalReason {
    let (line, end) = rest.split_at(chars::value_run(rest));
    match line {
        b"HTTP/1.1" | b"HTTP/1.0" => bad_line_end(end),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            RefusalReason::VersionNotSupported
        }
        _ if line.contains(&b' ') || line.is_empty() => RefusalReason::RequestLine,
        _ => RefusalReason::Version,
    }
}

/// Checks the rules that concern several parts of the head, and notes what follows from them. A head
/// with an unknown expectation is known in whole, and refused.
#[inline]
fn check(bytes: &[u8], table: &mut HeadTable) -> Result<(), RefusalReason> {
    let spans = table.spans();
    let info = &table.info;
    let known = |field| info.known(field, bytes, spans);
    check_host(info, info.span(KnownField::Host, spans), bytes)?;
    let (length, coding) = (KnownField::ContentLength, KnownField::TransferEncoding);
    check_repeated(info)?;
    let framing = framing::of_request(info.version, info.method, known(length), known(coding))?;
    let mut options = 0;
    if let Some(first) = known(KnownField::Connection) {
        options = connection_options(info, first, bytes, spans)?;
    }
    let (mut expects_continue, mut expects_other) = (false, false);
    if let Some(value) = known(KnownField::Expect)
        && info.version == Version::Http11
    {
        let repeated = info.is_repeated(KnownField::Expect);
        expects_continue = !repeated && value.eq_ignore_ascii_case(b"100-continue");
        expects_other = !expects_continue;
    }
    table.info.framing = framing;
    table.info.options = options;
    table.info.expects_continue = expects_continue;
    match expects_other {
        true => Err(RefusalReason::ExpectationFailed),
        false => Ok(()),
    }
}

/// Refuses a second field that decides the framing.
#[inline]
pub(super) fn check_repeated(info: &Info) -> Result<(), RefusalReason> {
    if info.is_repeated(KnownField::ContentLength) {
        return Err(RefusalReason::ContentLengthRepeated);
    }
    if info.is_repeated(KnownField::TransferEncoding) {
        return Err(RefusalReason::TransferEncodingRepeated);
    }
    Ok(())
}

/// Returns the options of all `Connection` fields, of which `first` is the first.
#[inline]
pub(super) fn connection_options(
    info: &Info,
    first: &[u8],
    bytes: &[u8],
    spans: &[Span],
) -> Result<u8, RefusalReason> {
    let invalid = RefusalReason::ConnectionInvalid;
    let mut options = connection::options(first).ok_or(invalid)?;
    if info.is_repeated(KnownField::Connection) {
        let name = KnownField::Connection.name();
        let mut length = 0;
        for value in (Fields { bytes, spans }).get_all(name) {
            options |= connection::options(value).ok_or(invalid)?;
            length += value.len();
        }
        if length > connection::MOST_BYTES {
            return Err(invalid);
        }
    }
    Ok(options)
}

#[inline]
fn check_host(info: &Info, host: Option<Span>, bytes: &[u8]) -> Result<(), RefusalReason> {
    let Some(host) = host else {
        return match info.version {
            Version::Http11 => Err(RefusalReason::HostMissing),
            Version::Http10 => Ok(()),
        };
    };
    if info.is_repeated(KnownField::Host) {
        return Err(RefusalReason::HostRepeated);
    }
    let length = host.value(bytes).len();
    let Some(host) = Authority::parse_in(&bytes[usize::from(host.value)..], length) else {
        return Err(RefusalReason::HostInvalid);
    };
    match info.form {
        TargetForm::Origin | TargetForm::Asterisk => Ok(()),
        TargetForm::Absolute | TargetForm::Authority => {
            compare_host(host, info.form, slice(bytes, info.text))
        }
    }
}

/// Refuses a `Host` that contradicts the target.
#[cold]
fn compare_host(host: Authority<'_>, form: TargetForm, target: &[u8]) -> Result<(), RefusalReason> {
    let fits = match form {
        TargetForm::Authority => Authority::parse(target).is_some_and(|own| own.fits(host, None)),
        _ => target::absolute(target)
            .is_some_and(|own| own.authority.fits(host, Some(own.default_port))),
    };
    match fits {
        true => Ok(()),
        false => Err(RefusalReason::HostMismatch),
    }
}
