//! The messages of a connection as a list of events, whatever the pieces in which they arrive. The
//! fuzz targets include this file.

use tidegate_http::codec::{
    BodyEvent, BodyFraming, BodyLimits, BodyStep, Fields, HeadLimits, HeadTable, Method,
    RefusalReason, RequestDecoder, ResponseDecoder, Trailers,
};

/// What a decoder found. Data of one body is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The start line in parts, the fields, and the framing.
    Head(String, Vec<(String, Vec<u8>)>, BodyFraming),
    Data(Vec<u8>),
    Trailers(Vec<(String, Vec<u8>)>),
    End,
    Refused(RefusalReason),
}

/// Returns the events of requests that arrive in `pieces`, followed by the end of the input.
pub fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    requests_within(HeadLimits::DEFAULT, BodyLimits::DEFAULT, pieces)
}

/// The same with other limits.
pub fn requests_within<'a>(
    head: HeadLimits,
    body: BodyLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Event> {
    let decoder = RequestDecoder::new(head, body);
    Reader::new(decoder).read(pieces)
}

/// Returns the events of responses to requests with the method `to`.
pub fn responses<'a>(to: Method<'_>, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    Reader::new((decoder, to)).read(pieces)
}

/// Checks that the events do not depend on the pieces, and returns them: the input is split at every
/// byte and into one-byte pieces.
pub fn split_everywhere(input: &[u8], read: impl Fn(&[&[u8]]) -> Vec<Event>) -> Vec<Event> {
    let whole = read(&[input]);
    let single: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(
        read(&single),
        whole,
        "one-byte pieces of {}",
        input.escape_ascii()
    );
    for at in 1..input.len() {
        let (first, second) = input.split_at(at);
        let pieces = read(&[first, second]);
        assert_eq!(pieces, whole, "split at {at}: {}", input.escape_ascii());
    }
    whole
}

/// One direction of a connection.
trait Decoder {
    /// Returns the head and its length.
    fn head(&mut self, input: &[u8]) -> Result<Option<(Event, usize)>, RefusalReason>;
    /// Returns the length of an empty line that is ignored.
    fn skip(&mut self, _: &[u8]) -> usize {
        0
    }
    fn in_body(&self) -> bool;
    fn body(&mut self, input: &[u8]) -> Result<BodyStep, RefusalReason>;
    fn end(&mut self) -> Result<(), RefusalReason>;
}

impl Decoder for RequestDecoder {
    fn head(&mut self, input: &[u8]) -> Result<Option<(Event, usize)>, RefusalReason> {
        let mut table = HeadTable::new();
        let head = RequestDecoder::head(self, input, &mut table)?;
        Ok(head.map(|head| {
            let (method, target) = (head.method(), head.target());
            let line = format!("{method} {target} {}", head.version());
            let event = Event::Head(line, copy(head.fields()), head.framing());
            (event, head.len())
        }))
    }

    fn skip(&mut self, input: &[u8]) -> usize {
        self.skip_empty_line(input)
    }

    fn in_body(&self) -> bool {
        RequestDecoder::in_body(self)
    }

    fn body(&mut self, input: &[u8]) -> Result<BodyStep, RefusalReason> {
        RequestDecoder::body(self, input)
    }

    fn end(&mut self) -> Result<(), RefusalReason> {
        self.end_of_input()
    }
}

impl Decoder for (ResponseDecoder, Method<'_>) {
    fn head(&mut self, input: &[u8]) -> Result<Option<(Event, usize)>, RefusalReason> {
        let mut table = HeadTable::new();
        let head = self.0.head(input, &mut table, self.1)?;
        Ok(head.map(|head| {
            let (status, reason) = (head.status(), head.reason().escape_ascii());
            let line = format!("{} {status} {reason}", head.version());
            let event = Event::Head(line, copy(head.fields()), head.framing(self.1));
            (event, head.len())
        }))
    }

    fn in_body(&self) -> bool {
        self.0.in_body()
    }

    fn body(&mut self, input: &[u8]) -> Result<BodyStep, RefusalReason> {
        self.0.body(input)
    }

    fn end(&mut self) -> Result<(), RefusalReason> {
        self.0.end_of_input()
    }
}

fn copy(fields: Fields<'_>) -> Vec<(String, Vec<u8>)> {
    let pairs = fields.iter();
    pairs
        .map(|field| (field.name.to_string(), field.value.to_vec()))
        .collect()
}

/// Keeps what a decoder has not consumed, as a server does.
struct Reader<D> {
    decoder: D,
    buffer: Vec<u8>,
    events: Vec<Event>,
}

impl<D: Decoder> Reader<D> {
    fn new(decoder: D) -> Self {
        Self {
            decoder,
            buffer: Vec::new(),
            events: Vec::new(),
        }
    }

    fn read<'a>(mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        for piece in pieces {
            self.buffer.extend_from_slice(piece);
            while let Some(consumed) = self.step() {
                self.buffer.drain(..consumed);
            }
        }
        let refused = matches!(self.events.last(), Some(Event::Refused(_)));
        if let (Err(reason), false) = (self.decoder.end(), refused) {
            self.events.push(Event::Refused(reason));
        }
        self.events
    }

    /// Takes one step and returns the number of consumed bytes, or `None` if more bytes are needed.
    fn step(&mut self) -> Option<usize> {
        let step = match self.decoder.in_body() {
            true => self.body(),
            false => self.head(),
        };
        match step {
            Ok(step) => step,
            Err(reason) => {
                if !matches!(self.events.last(), Some(Event::Refused(_))) {
                    self.events.push(Event::Refused(reason));
                }
                None
            }
        }
    }

    fn head(&mut self) -> Result<Option<usize>, RefusalReason> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let skipped = self.decoder.skip(&self.buffer);
        if skipped > 0 {
            return Ok(Some(skipped));
        }
        let Some((event, length)) = self.decoder.head(&self.buffer)? else {
            return Ok(None);
        };
        self.events.push(event);
        if !self.decoder.in_body() {
            self.events.push(Event::End);
        }
        Ok(Some(length))
    }

    fn body(&mut self) -> Result<Option<usize>, RefusalReason> {
        let step = self.decoder.body(&self.buffer)?;
        match step.event {
            BodyEvent::More => {
                self.buffer.drain(..step.consumed);
                return Ok(None);
            }
            BodyEvent::Data(range) => {
                assert!(!range.is_empty() && range.end <= step.consumed);
                let data = &self.buffer[range];
                match self.events.last_mut() {
                    Some(Event::Data(before)) => before.extend_from_slice(data),
                    _ => self.events.push(Event::Data(data.to_vec())),
                }
            }
            BodyEvent::Trailers(range) => {
                let fields = Trailers::new(&self.buffer[range]);
                let fields = fields.map(|field| (field.name.to_string(), field.value.to_vec()));
                self.events.push(Event::Trailers(fields.collect()));
            }
            BodyEvent::End => self.events.push(Event::End),
        }
        Ok(Some(step.consumed))
    }
}
