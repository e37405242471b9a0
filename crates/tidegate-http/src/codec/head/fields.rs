//! The fields of a head as the peer sent them: order and spelling are kept.

use std::fmt;

use crate::codec::chars;

use super::table::Span;

/// A field of a head or a trailer section.
///
/// The name is a token in the spelling of the peer. The value has no white space at its ends and no
/// control byte other than tab; it may contain bytes above 127.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, in the spelling of the peer.
    pub name: &'a str,
    /// The value, without white space at its ends.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// Returns `true` if the name is `name`, in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_http::codec::Field;
    ///
    /// let field = Field { name: "X-Request-ID", value: b"17" };
    /// assert!(field.is("x-request-id"));
    /// assert_eq!(field.text(), Some("17"));
    /// ```
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns the value as text, if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.value).ok()
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value.escape_ascii())
    }
}

/// The fields of a head, in their original order and spelling.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"GET / HTTP/1.1\r\nHost: a\r\nacCept: x\r\nAccept: y\r\n\r\n";
/// let head = decoder.head(received, &mut table)?.expect("the head is complete");
///
/// let names: Vec<_> = head.fields().iter().map(|field| field.name).collect();
/// assert_eq!(names, ["Host", "acCept", "Accept"]);
/// let accepted: Vec<_> = head.fields().get_all("accept").collect();
/// assert_eq!(accepted, [b"x", b"y"]);
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Fields<'a> {
    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns `true` if there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the value of the first field with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// Returns the values of all fields with this name, in any case.
    pub fn get_all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let (bytes, name) = (self.bytes, name.as_bytes());
        let named = move |span: &&Span| span.name(bytes).eq_ignore_ascii_case(name);
        let found = self.spans.iter().filter(named);
        found.map(move |span| span.value(bytes))
    }

    /// Returns the fields in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'a>> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| Field {
            name: chars::ascii(span.name(bytes)),
            value: span.value(bytes),
        })
    }

    /// Passes the lines of the fields whose name and value are wanted to `put`: `Name: value` and CR LF. Lines that
    /// have this form in memory, and follow each other there, are passed in one piece.
    #[inline]
    pub(crate) fn write_lines(
        &self,
        mut is_wanted: impl FnMut(&'a [u8], &'a [u8]) -> bool,
        put: impl FnMut(&'a [u8]),
    ) {
        let bytes = self.bytes;
        self.write_spans(|span| is_wanted(span.name(bytes), span.value(bytes)), put);
    }

    /// The same for fields by their offsets.
    #[inline]
    pub(super) fn write_spans(
        &self,
        mut is_wanted: impl FnMut(&Span) -> bool,
        mut put: impl FnMut(&'a [u8]),
    ) {
        let mut run = 0..0;
        for span in self.spans {
            if !is_wanted(span) {
                continue;
            }
            let (start, end) = (usize::from(span.name), usize::from(span.value_end) + 2);
            let is_plain = self.is_plain(*span);
            if is_plain && run.end == start {
                run.end = end;
                continue;
            }
            put(&self.bytes[run]);
            run = start..end;
            if !is_plain {
                run = 0..0;
                let (name, value) = (span.name(self.bytes), span.value(self.bytes));
                for part in [name, b": ", value, b"\r\n"] {
                    put(part);
                }
            }
        }
        put(&self.bytes[run]);
    }

    /// Returns `true` if a field has the spaces and the end of line that are usual.
    #[inline]
    pub(super) fn is_plain(&self, span: Span) -> bool {
        let (value, end) = (usize::from(span.value), usize::from(span.value_end));
        value == usize::from(span.name_end) + 2
            && self.bytes.get(value - 2..value) == Some(b": ")
            && self.bytes.get(end..end + 2) == Some(b"\r\n")
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
