//! What a decoder of a body returns.

use std::ops::Range;

/// What a decoder found in the received bytes of a body, and how many of them it used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyStep {
    /// The number of bytes at the start of the input that are done with. The next input starts
    /// after them.
    pub consumed: usize,
    /// What was found.
    pub event: BodyEvent,
}

impl BodyStep {
    #[inline]
    pub(super) fn new(consumed: usize, event: BodyEvent) -> Self {
        Self { consumed, event }
    }
}

/// A part of a body, as a range of the received bytes.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyEvent, BodyLimits, HeadLimits, HeadTable, RequestDecoder};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
/// decoder.head(head, &mut HeadTable::new())?;
///
/// assert_eq!(decoder.body(b"he")?.event, BodyEvent::Data(0..2));
/// assert_eq!(decoder.body(b"")?.event, BodyEvent::More);
/// assert_eq!(decoder.body(b"lloGET")?.event, BodyEvent::Data(0..3));
/// assert_eq!(decoder.body(b"GET")?.event, BodyEvent::End); // consumes nothing
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEvent {
    /// More bytes are needed. The bytes that were not consumed must be part of the next input.
    More,
    /// Data of the body, never empty.
    Data(Range<usize>),
    /// The trailer section, for [`Trailers`](super::Trailers). Comes after the data, if there are
    /// trailers.
    Trailers(Range<usize>),
    /// The end of the message. Comes exactly once.
    End,
}
