//! The fields after a chunked body.
//!
//! A trailer section obeys the rules of field lines, and has no field that would change the framing
//! or the meaning of the body. It is never merged with the head.

use crate::codec::chars;
use crate::codec::encode::is_forbidden_trailer;
use crate::codec::head::{Field, field, lines};
use crate::codec::limits::MAX_FIELDS;
use crate::codec::refusal::RefusalReason;

/// The fields of a trailer section, in their order.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{
///     BodyEvent, BodyLimits, HeadLimits, HeadTable, RequestDecoder, Trailers,
/// };
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let head = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
/// decoder.head(head, &mut HeadTable::new())?;
/// let body = b"0\r\nChecksum: 17\r\n\r\n";
/// let BodyEvent::Trailers(range) = decoder.body(body)?.event else { panic!() };
/// let field = Trailers::new(&body[range]).next().unwrap();
/// assert_eq!((field.name, field.value), ("Checksum", &b"17"[..]));
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Debug, Clone)]
pub struct Trailers<'a> {
    rest: &'a [u8],
}

impl<'a> Trailers<'a> {
    /// Reads the bytes that a decoder returned as a trailer section.
    ///
    /// Reading ends at the first line that is not a field, if the bytes are others.
    #[must_use]
    pub fn new(section: &'a [u8]) -> Self {
        Self { rest: section }
    }
}

impl<'a> Iterator for Trailers<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let end = chars::find(self.rest, b'\n')?;
        let line = self.rest.get(..end)?.strip_suffix(b"\r")?;
        self.rest = &self.rest[end + 1..];
        let colon = chars::find(line, b':')?;
        chars::is_token(&line[..colon]).then(|| field(line))?
    }
}

/// Checks a complete trailer section, which ends in an empty line.
pub(super) fn check(section: &[u8]) -> Result<(), RefusalReason> {
    let mut count = 0;
    lines(section, 0, |span, _| {
        count += 1;
        if count > MAX_FIELDS {
            return Err(RefusalReason::TrailersTooLarge);
        }
        match is_forbidden_trailer(span.name(section)) {
            true => Err(RefusalReason::ForbiddenTrailer),
            false => Ok(()),
        }
    })?;
    Ok(())
}
