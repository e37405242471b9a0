//! The messages of one connection: heads and bodies in turn.
//!
//! A head that is complete in its first piece is parsed at once; this is the fast path. Otherwise a
//! scan searches each byte once for the end of the head, and then the head is parsed. So a head
//! costs linear work, however it is split. The scan also decides what a head that the parser does
//! not accept is: incomplete, or refused.

use std::marker::PhantomData;
use std::ops::Range;

use super::body::{BodyDecoder, BodyEvent, BodyStep};
use super::chars::is_token;
use super::framing::BodyFraming;
use super::head::{Expected, HeadTable, OfRequest, OfResponse, RequestHead, ResponseHead, Scan};
use super::limits::{BodyLimits, HeadLimits};
use super::method::Method;
use super::probe;
use super::refusal::RefusalReason;

/// The longest method of a refused head that is told to a service.
const LONGEST_METHOD: usize = 64;

/// Decodes the requests of one connection, for a server.
///
/// It holds no received bytes. [`head`](Decoder::head) and [`body`](Decoder::body) take turns: after a
/// head whose body is not empty, `body` is called until it returns [`BodyEvent::End`].
///
/// A refusal is final: after it, every call returns the same reason and looks at no byte.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder};
///
/// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// // The bytes of an incomplete head are passed again, together with those that follow them.
/// assert!(decoder.head(b"GET / HTTP/1.1\r\nHo", &mut table)?.is_none());
/// let head = decoder.head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table)?;
/// assert_eq!(head.expect("the head is complete").path(), "/");
///
/// let refused = decoder.head(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", &mut table);
/// assert_eq!(refused.unwrap_err(), RefusalReason::SpaceBeforeColon);
/// let after = decoder.head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table);
/// assert_eq!(after.unwrap_err(), RefusalReason::SpaceBeforeColon);
/// # Ok::<(), RefusalReason>(())
/// ```
pub type RequestDecoder = Decoder<OfRequest>;

/// Decodes the responses of one connection, for a client.
///
/// It works as [`RequestDecoder`] does and has the same rules. A body without a declared end goes
/// up to the end of the connection.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{BodyEvent, BodyLimits, HeadLimits, HeadTable, Method, ResponseDecoder};
///
/// let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
/// let mut table = HeadTable::new();
/// let received = b"HTTP/1.1 200 OK\r\n\r\nhello";
/// let head = decoder.head(received, &mut table, Method::Get)?.expect("the head is complete");
/// let body = &received[head.len()..];
/// assert_eq!(decoder.body(body)?.event, BodyEvent::Data(0..5));
/// decoder.end_of_input()?; // the end of the body
/// # Ok::<(), tidegate_http::codec::RefusalReason>(())
/// ```
pub type ResponseDecoder = Decoder<OfResponse>;

/// Decodes one direction of a connection: a [`RequestDecoder`] or a [`ResponseDecoder`].
#[derive(Debug, Clone)]
pub struct Decoder<K> {
    head_limits: HeadLimits,
    body_limits: BodyLimits,
    state: State,
    kind: PhantomData<K>,
}

#[derive(Debug, Clone)]
enum State {
    Head(Scan),
    Body(BodyDecoder),
    /// The last message was the last one of the protocol.
    Tunnel,
    Refused(RefusalReason),
}

/// Parses a head into a table.
type Parse = fn(&[u8], &HeadLimits, &mut HeadTable) -> Result<(), RefusalReason>;

impl Decoder<OfRequest> {
    /// Returns the head at the start of `input`, or `None` if it is not complete.
    ///
    /// `input` starts with the first byte of the head, also if the head is not complete in the
    /// first call: then the next `input` has the same bytes and further ones. The bytes of a
    /// returned head are consumed, and so many bytes must be dropped.
    ///
    /// Returns `None` also while the body of the previous message has not ended.
    ///
    /// # Errors
    ///
    /// The reason why the message is refused.
    #[inline]
    pub fn head<'a>(
        &mut self,
        input: &'a [u8],
        table: &'a mut HeadTable,
    ) -> Result<Option<RequestHead<'a>>, RefusalReason> {
        if !self.find(input, table, Expected::Request, RequestHead::parse)? {
            return Ok(None);
        }
        let head = RequestHead::of(input, table);
        self.begin_body(head.framing());
        Ok(Some(head))
    }

    /// Returns the length of an empty line at the start of `input`, or zero if there is none that may be
    /// ignored. So many bytes must be dropped before [`head`](Self::head) is called.
    ///
    /// A server should ignore an empty line before a request line (RFC 9112, section 2.2). One is
    /// ignored before each, and `head` refuses a further one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_http::codec::{BodyLimits, HeadLimits, RequestDecoder};
    ///
    /// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    /// assert_eq!(decoder.skip_empty_line(b"\r\nGET / HTTP/1.1\r\n"), 2);
    /// assert_eq!(decoder.skip_empty_line(b"\r\nGET / HTTP/1.1\r\n"), 0);
    /// ```
    #[inline]
    pub fn skip_empty_line(&mut self, input: &[u8]) -> usize {
        match (&mut self.state, input) {
            (State::Head(scan), [b'\r', ..]) => scan.skip_empty_line(input),
            _ => 0,
        }
    }

    /// Returns the head that [`head`](Self::head) has just refused for `reason`, with the same `input`
    /// and `table`, if the reason is none that makes its parts unclear.
    pub(crate) fn refused_head<'a>(
        reason: RefusalReason,
        input: &'a [u8],
        table: &'a HeadTable,
    ) -> Option<RequestHead<'a>> {
        (reason == RefusalReason::ExpectationFailed).then(|| RequestHead::of(input, table))
    }

    /// Returns the method with which a head begins that is refused, whatever follows it.
    pub(crate) fn refused_method(input: &[u8]) -> Option<Method<'_>> {
        let start = &input[..input.len().min(LONGEST_METHOD + 1)];
        let end = start.iter().position(|byte| *byte == b' ')?;
        let name = Some(&start[..end]).filter(|name| is_token(name))?;
        std::str::from_utf8(name).ok().map(Method::from)
    }
}

impl Decoder<OfResponse> {
    /// Returns the head at the start of `input`, or `None` if it is not complete; see
    /// [`RequestDecoder`]. The response is the one to a request with the method `to`.
    ///
    /// After an interim response (status 1xx), the next head is the next response to the same
    /// request.
    ///
    /// # Errors
    ///
    /// The reason why the message is refused.
    pub fn head<'a>(
        &mut self,
        input: &'a [u8],
        table: &'a mut HeadTable,
        to: Method<'_>,
    ) -> Result<Option<ResponseHead<'a>>, RefusalReason> {
        if !self.find(input, table, Expected::Response, ResponseHead::parse)? {
            return Ok(None);
        }
        let head = ResponseHead::of(input, table);
        self.begin_body(head.framing(to));
        Ok(Some(head))
    }
}

impl<K> Decoder<K> {
    /// Creates the decoder of a new connection.
    #[must_use]
    pub const fn new(head: HeadLimits, body: BodyLimits) -> Self {
        Self {
            head_limits: head,
            body_limits: body,
            state: State::Head(Scan::new()),
            kind: PhantomData,
        }
    }

    /// Parses the head at the start of `input` into `table`. Returns `false` if it is not complete.
    #[inline(always)]
    fn find(
        &mut self,
        input: &[u8],
        table: &mut HeadTable,
        expected: Expected,
        parse: Parse,
    ) -> Result<bool, RefusalReason> {
        if let State::Head(scan) = &self.state
            && scan.is_new()
        {
            probe::inspected(input.len());
            if parse(input, &self.head_limits, table).is_ok() {
                return Ok(true);
            }
        }
        self.find_slowly(input, table, expected, parse)
    }

    /// Searches the end of the head, and parses it if it is complete.
    #[cold]
    fn find_slowly(
        &mut self,
        input: &[u8],
        table: &mut HeadTable,
        expected: Expected,
        parse: Parse,
    ) -> Result<bool, RefusalReason> {
        let scan = match &mut self.state {
            State::Head(scan) => scan,
            State::Body(_) | State::Tunnel => return Ok(false),
            State::Refused(reason) => return Err(*reason),
        };
        let limits = &self.head_limits;
        let found = scan
            .find_end(input, limits, expected)
            .and_then(|end| match end {
                Some(end) => {
                    probe::inspected(end);
                    parse(&input[..end], limits, table).map(|()| true)
                }
                None => Ok(false),
            });
        match found {
            Ok(true) => *scan = Scan::new(),
            Ok(false) => {}
            Err(reason) => self.state = State::Refused(reason),
        }
        found
    }

    #[inline]
    fn begin_body(&mut self, framing: BodyFraming) {
        if framing == BodyFraming::Tunnel {
            self.state = State::Tunnel;
        } else if let Some(body) = BodyDecoder::new(framing) {
            self.state = State::Body(body);
        }
    }

    /// Takes the last head back: its bytes are not consumed, and the next call of `head` returns it again.
    pub(crate) fn put_back(&mut self) {
        self.state = State::Head(Scan::new());
    }

    /// Decodes the body of the last head up to the next event.
    ///
    /// `input` starts with the first byte that has not been consumed. After
    /// [`BodyEvent::End`], the next message begins. Without a body, the event is `End` at once.
    ///
    /// # Errors
    ///
    /// The reason why the message is refused.
    pub fn body(&mut self, input: &[u8]) -> Result<BodyStep, RefusalReason> {
        let step = match &mut self.state {
            State::Body(body) => body.decode(input, &self.body_limits),
            State::Refused(reason) => return Err(*reason),
            State::Head(_) | State::Tunnel => Ok(BodyStep {
                consumed: 0,
                event: BodyEvent::End,
            }),
        };
        match &step {
            Ok(step) if step.event == BodyEvent::End && self.in_body() => {
                self.state = State::Head(Scan::new());
            }
            Ok(_) => {}
            Err(reason) => self.state = State::Refused(*reason),
        }
        step
    }

    /// Decodes the next part of data and returns it with the number of bytes that it uses up, if it is in
    /// a chunk and has at most `most` bytes. Otherwise nothing is decoded. For readers that join small
    /// chunks.
    pub(crate) fn small_chunk(
        &mut self,
        input: &[u8],
        most: usize,
    ) -> Option<(usize, Range<usize>)> {
        match &mut self.state {
            State::Body(body) => body.small_chunk(input, &self.body_limits, most),
            State::Head(_) | State::Tunnel | State::Refused(_) => None,
        }
    }

    /// Returns `true` if the body of the last head has not ended.
    #[inline]
    #[must_use]
    pub fn in_body(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Returns how many bytes of the current body are missing, if its length is known.
    pub(crate) fn missing(&self) -> Option<u64> {
        match &self.state {
            State::Body(body) => body.missing(),
            State::Head(_) | State::Tunnel | State::Refused(_) => None,
        }
    }

    /// Refuses the current message for a reason that the caller found, such as a timeout.
    ///
    /// The first reason stays.
    pub fn refuse(&mut self, reason: RefusalReason) {
        if self.refusal().is_none() {
            self.state = State::Refused(reason);
        }
    }

    /// Returns the reason why a message was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalReason> {
        match &self.state {
            State::Refused(reason) => Some(*reason),
            _ => None,
        }
    }

    /// Ends the input: the peer closed its side of the connection. A body until close is complete then.
    ///
    /// # Errors
    ///
    /// [`RefusalReason::UnexpectedEnd`] if a message is not complete, or the earlier refusal.
    pub fn end_of_input(&mut self) -> Result<(), RefusalReason> {
        let complete = match &self.state {
            State::Head(scan) => !scan.has_begun(),
            State::Body(body) => body.ends_with_input(),
            State::Tunnel => true,
            State::Refused(reason) => return Err(*reason),
        };
        if complete {
            return Ok(());
        }
        self.state = State::Refused(RefusalReason::UnexpectedEnd);
        Err(RefusalReason::UnexpectedEnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes that are inspected for `head` in pieces of `size` bytes.
    fn inspected(head: &[u8], size: usize) -> usize {
        let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let mut table = HeadTable::new();
        probe::take();
        for end in (size..head.len()).step_by(size) {
            assert!(decoder.head(&head[..end], &mut table).unwrap().is_none());
        }
        assert!(decoder.head(head, &mut table).unwrap().is_some());
        probe::take()
    }

    #[test]
    fn a_head_in_pieces_costs_linear_work() {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        while head.len() < 30_000 {
            head.extend_from_slice(b"X-Long: ");
            head.resize(head.len() + 500, b'x');
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        assert_eq!(inspected(&head, head.len()), head.len());
        // The first piece is parsed in vain, each byte is scanned once, and the head is parsed.
        for size in [1, 2, 7, 1000, head.len() - 1] {
            let most = size + 2 * head.len();
            let count = inspected(&head, size);
            assert!(count <= most, "{count} bytes in pieces of {size}");
        }
    }
}
