//! Writes the head of a response into a buffer, field by field, in the order of the calls.
//!
//! Nothing is stored: the status line and the fields go into the buffer at once. A mistake of the
//! service (a line break in a value, a status that does not exist) is remembered, and the whole
//! response is replaced at its end.

use bytes::BytesMut;

use crate::codec::{
    BodyFraming, EncodeError, FieldLines, Fields, HttpDate, KnownField, Method, RequestHead,
    Version, chars, encode,
};

/// What the response to a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    /// The request is a `HEAD`: its response has no body.
    pub(crate) head: bool,
    pub(crate) version: Version,
    /// The client wants to use the connection again.
    pub(crate) keep_alive: bool,
    pub(crate) switches: Switches,
}

/// Whether the client wants to change the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switches {
    No,
    /// By a field `Upgrade`, in a request without a body.
    Upgrade,
    /// By the method `CONNECT`.
    Connect,
}

impl Switches {
    #[inline]
    fn of(method: Method<'_>, head: &RequestHead<'_>) -> Self {
        match method {
            Method::Connect => Self::Connect,
            _ if head.upgrade().is_some() && head.framing().is_empty() => Self::Upgrade,
            _ => Self::No,
        }
    }
}

impl ReplyTo {
    #[inline]
    pub(crate) fn of(head: &RequestHead<'_>) -> Self {
        let method = head.method();
        Self {
            head: matches!(method, Method::Head),
            version: head.version(),
            keep_alive: head.keep_alive(),
            switches: Switches::of(method, head),
        }
    }

    /// Returns what is known of a request that could not be read.
    pub(crate) const fn unknown() -> Self {
        Self {
            head: false,
            version: Version::Http11,
            keep_alive: false,
            switches: Switches::No,
        }
    }

    fn method(self) -> Method<'static> {
        if self.head { Method::Head } else { Method::Get }
    }
}

/// The head of one response, while it is written.
#[derive(Debug)]
pub(crate) struct HeadWriter {
    /// Where the response begins in the buffer.
    start: usize,
    /// Where its status line ends; equal to `start` while it is not written.
    line_end: usize,
    status: u16,
    has_date: bool,
    has_upgrade: bool,
    /// The service asked for the end of the connection, with a field `Connection: close`.
    close: bool,
    mistake: Option<EncodeError>,
}

impl HeadWriter {
    /// Begins a response at the end of `out`. Its status is 200 unless it is set.
    #[inline]
    pub(crate) fn new(out: &BytesMut) -> Self {
        Self {
            start: out.len(),
            line_end: out.len(),
            status: 200,
            has_date: false,
            has_upgrade: false,
            close: false,
            mistake: None,
        }
    }

    pub(crate) fn status_code(&self) -> u16 {
        self.status
    }

    /// Returns how many bytes of the response are written.
    #[inline]
    pub(crate) fn length(&self, out: &BytesMut) -> usize {
        out.len() - self.start
    }

    /// Sets the status. After the first field, the status line is written again.
    #[inline]
    pub(crate) fn status(&mut self, out: &mut BytesMut, status: u16) {
        if !(200..=999).contains(&status) {
            self.mistake.get_or_insert(EncodeError::Status);
            return;
        }
        self.set_status(out, status);
    }

    #[inline]
    fn set_status(&mut self, out: &mut BytesMut, status: u16) {
        let before = std::mem::replace(&mut self.status, status);
        if self.line_end != self.start && before != status {
            self.write_line_again(out);
        }
    }

    #[cold]
    fn write_line_again(&mut self, out: &mut BytesMut) {
        let fields = out[self.line_end..].to_vec();
        out.truncate(self.start);
        self.line_end = self.start;
        self.write_line(out);
        out.extend_from_slice(&fields);
    }

    /// Adds a field.
    pub(crate) fn field(&mut self, out: &mut BytesMut, name: &str, value: &[u8]) {
        self.write_line(out);
        match name.len() {
            4 if name.eq_ignore_ascii_case("date") => self.has_date = true,
            7 if name.eq_ignore_ascii_case("upgrade") => self.has_upgrade = true,
            10 if name.eq_ignore_ascii_case("connection") => {
                // Keeping the connection open is the server's decision.
                self.close |= lists(value, b"close");
                return;
            }
            _ => {}
        }
        if let Err(mistake) = encode::field(out, name, value) {
            self.mistake.get_or_insert(mistake);
        }
    }

    /// Adds the fields of a received head that are wanted.
    pub(crate) fn received_fields(
        &mut self,
        out: &mut BytesMut,
        fields: Fields<'_>,
        mut is_wanted: impl FnMut(&[u8]) -> bool,
    ) {
        self.write_line(out);
        let mut refused = None;
        fields.write_lines(
            |name, value| {
                if !is_wanted(name) {
                    return false;
                }
                // The names of a received head are tokens.
                match KnownField::of_token(name) {
                    Some(KnownField::Connection) => {
                        // Keeping the connection open is the server's decision.
                        self.close |= lists(value, b"close");
                        return false;
                    }
                    Some(KnownField::ContentLength | KnownField::TransferEncoding) => {
                        refused = Some(EncodeError::FramingField);
                        return false;
                    }
                    Some(KnownField::Upgrade) => self.has_upgrade = true,
                    Some(_) => {}
                    None => self.has_date |= name.eq_ignore_ascii_case(b"date"),
                }
                true
            },
            |text| out.extend_from_slice(text),
        );
        if let Some(mistake) = refused {
            self.mistake.get_or_insert(mistake);
        }
    }

    /// Adds fields that were checked before.
    #[inline]
    pub(crate) fn field_lines(&mut self, out: &mut BytesMut, lines: &FieldLines) {
        if lines.is_for_server() {
            for place in lines.places() {
                let (name, value) = lines.parts(*place);
                self.field(out, name, value);
            }
            return;
        }
        self.write_line(out);
        out.extend_from_slice(lines.as_bytes());
    }

    /// Adds a field that was checked before, with another value of the same length.
    #[inline]
    pub(crate) fn field_with<const N: usize>(
        &mut self,
        out: &mut BytesMut,
        line: &FieldLines,
        value: &[u8; N],
    ) {
        self.write_line(out);
        let start = out.len();
        if let [place] = line.places()
            && place.value().len() == N
            && encode::is_visible(value)
            && !line.is_for_server()
        {
            out.extend_from_slice(line.as_bytes());
            let at = start + place.value().start;
            out[at..at + N].copy_from_slice(value);
        } else {
            self.mistake.get_or_insert(EncodeError::FieldValue);
        }
    }

    /// Ends the head of a response with a body of the given framing. Returns how the body is sent,
    /// and whether the connection ends with it.
    pub(crate) fn finish(
        &mut self,
        out: &mut BytesMut,
        body: BodyFraming,
        to: ReplyTo,
        date: &HttpDate,
    ) -> Result<(BodyFraming, bool), EncodeError> {
        self.write_line(out);
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        if to.switches == Switches::Connect && self.status / 100 == 2 {
            // The client would take everything after the head for the tunnel.
            return Err(EncodeError::Switch);
        }
        let body = match body {
            // HTTP/1.0 has no chunks: the end of the connection ends the body.
            BodyFraming::Chunked if to.version == Version::Http10 => BodyFraming::UntilClose,
            other => other,
        };
        if let BodyFraming::Length(length) = body
            && self.is_usual(to)
        {
            let date = (!self.has_date).then_some(date);
            encode::end_with_length(out, length, date);
            return Ok((body, false));
        }
        let sent = match self.status {
            // Whatever the service writes: the head declares a length of zero.
            205 => BodyFraming::Empty,
            status => BodyFraming::of_response(status, to.method(), body),
        };
        encode::framing(out, body.declared_with(self.status));
        let close = self.close || !to.keep_alive || sent == BodyFraming::UntilClose;
        match (close, to.version) {
            (true, _) => encode::connection_close(out),
            (false, Version::Http10) => encode::connection_keep_alive(out),
            (false, Version::Http11) => {}
        }
        if !self.has_date {
            encode::date(out, date);
        }
        encode::head_end(out);
        Ok((sent, close))
    }

    /// Returns `true` if the response has a body, leaves the connection open, and needs no fields
    /// but those of most responses.
    #[inline]
    fn is_usual(&self, to: ReplyTo) -> bool {
        let has_body = !to.head && !matches!(self.status, 204 | 205 | 304);
        let stays = !self.close && to.keep_alive && to.version == Version::Http11;
        has_body && stays
    }

    /// Ends the head of a response that changes the protocol: status 101, or 2xx for a `CONNECT`.
    pub(crate) fn finish_switch(
        &mut self,
        out: &mut BytesMut,
        to: ReplyTo,
        date: &HttpDate,
    ) -> Result<(), EncodeError> {
        match to.switches {
            Switches::Upgrade if self.has_upgrade => self.set_status(out, 101),
            Switches::Connect if self.status / 100 == 2 => {}
            _ => return Err(self.mistake.unwrap_or(EncodeError::Switch)),
        }
        self.write_line(out);
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        if to.switches == Switches::Upgrade {
            encode::field(out, "Connection", b"Upgrade")?;
        }
        if !self.has_date {
            encode::date(out, date);
        }
        encode::head_end(out);
        Ok(())
    }

    /// Removes what was written of the response, and returns it.
    pub(crate) fn split_off(&self, out: &mut BytesMut) -> BytesMut {
        let written = BytesMut::from(&out[self.start..]);
        out.truncate(self.start);
        written
    }

    /// Moves what was written of the response into memory of its own, where it can go on.
    pub(crate) fn move_out(&mut self, out: &mut BytesMut) -> (Self, BytesMut) {
        let written = self.split_off(out);
        let line_end = self.line_end - self.start;
        let begun = std::mem::replace(self, Self::new(out));
        let moved = Self {
            start: 0,
            line_end,
            ..begun
        };
        (moved, written)
    }

    /// Removes everything that was written of the response.
    pub(crate) fn undo(&mut self, out: &mut BytesMut) {
        out.truncate(self.start);
        *self = Self::new(out);
    }

    /// Writes the status line, unless it is written.
    #[inline]
    fn write_line(&mut self, out: &mut BytesMut) {
        if self.line_end == self.start {
            self.begin(out);
        }
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if self.status == 200 {
            out.extend_from_slice(encode::OK_LINE);
        } else if let Err(mistake) = encode::status_line(out, self.status) {
            self.mistake.get_or_insert(mistake);
        }
        self.line_end = out.len();
    }
}

/// Returns `true` if the comma-separated list `value` contains `word`.
fn lists(value: &[u8], word: &[u8]) -> bool {
    chars::list(value).any(|member| member.eq_ignore_ascii_case(word))
}

/// Writes a complete response without a body, which ends the connection.
pub(crate) fn write_closing(out: &mut BytesMut, status: u16, to: ReplyTo, date: &HttpDate) {
    let mut head = HeadWriter::new(out);
    let to = ReplyTo {
        keep_alive: false,
        ..to
    };
    head.status(out, status);
    let written = head.finish(out, BodyFraming::Length(0), to, date);
    debug_assert!(written.is_ok(), "status {status} of the server itself");
}

/// Adds `Connection: close` to the head of a complete or streamed response that does not have it.
#[cold]
pub(crate) fn say_close(response: &mut BytesMut) {
    const KEEP: &[u8] = b"\r\nConnection: keep-alive\r\n";
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|some| some == what);
    let start = match response.starts_with(encode::CONTINUE) {
        true => encode::CONTINUE.len(),
        false => 0,
    };
    let Some(end) = find(&response[start..], b"\r\n\r\n") else {
        return;
    };
    let fields_end = start + end + 2;
    let rest = response.split_off(fields_end);
    // A service cannot write this field: it is the server's own.
    if let Some(at) = find(&response[start..], KEEP) {
        let after = response.split_off(start + at + KEEP.len());
        response.truncate(start + at + 2);
        response.extend_from_slice(&after);
    }
    response.extend_from_slice(b"Connection: close\r\n");
    response.extend_from_slice(&rest);
}

/// Inserts `100 Continue` before the response that begins at `start`.
pub(crate) fn insert_continue(out: &mut BytesMut, start: usize) {
    let response = out.split_off(start);
    out.extend_from_slice(encode::CONTINUE);
    out.extend_from_slice(&response);
}
