//! Why a message is refused.

/// Defines the reasons: the name of each, its word, and what an error says.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $name:ident, $word:literal, $message:literal;)+) => {
        /// The reason why a decoder refuses a message.
        ///
        /// A server sends the [`status`](RefusalReason::status), closes the connection, and counts the
        /// refusal by its [`word`](RefusalReason::word). A client closes the connection.
        ///
        /// # Examples
        ///
        /// ```
        /// use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder};
        ///
        /// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        /// let refused = decoder.head(b"GET / HTTP/1.1\r\n\r\n", &mut HeadTable::new()).unwrap_err();
        /// assert_eq!(refused, RefusalReason::HostMissing);
        /// assert_eq!((refused.status(), refused.word()), (400, "host_missing"));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$doc])+ #[error($message)] $name,)+
        }

        impl RefusalReason {
            /// All reasons, in the order of their [`index`](RefusalReason::index).
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the word that names the reason in counters and logs.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word),+
                }
            }
        }
    };
}

reasons! {
    /// An empty line before the start line. A server ignores the first one before each request.
    EmptyLine, "empty_line",
        "the message starts with an empty line; send the start line first";
    /// A line that ends in LF without CR.
    BareLf, "bare_lf",
        "a line ends in LF without CR; end every line with CR LF";
    /// A CR that no LF follows.
    BareCr, "bare_cr",
        "a CR is not followed by LF; end every line with CR LF";
    /// NUL or another control byte in a line.
    ControlByte, "control_byte",
        "a line contains a control byte; remove it";
    /// A request line that is not a method, a target and a version, separated by single spaces.
    RequestLine, "request_line",
        "the request line is not `METHOD target HTTP/1.1`, separated by single spaces";
    /// A method with a byte that is not allowed in a token.
    Method, "method",
        "the method contains a byte that is not allowed in a token";
    /// A target of none of the four forms, with a byte that a URI must encode, or of a form that does not fit the method.
    Target, "target",
        "the request target has no valid form for its method, or a byte that must be percent-encoded";
    /// A version that is not `HTTP/` and two digits with a dot.
    Version, "version",
        "the version is not `HTTP/` and two digits with a dot";
    /// A well-formed version other than 1.0 and 1.1.
    VersionNotSupported, "version_not_supported",
        "the HTTP version is neither 1.0 nor 1.1";
    /// A status line that is not a version, three digits and a reason.
    StatusLine, "status_line",
        "the status line is not `HTTP/1.1 200 reason`";
    /// A start line above the limit.
    StartLineTooLong, "start_line_too_long",
        "the start line is longer than the limit; shorten the target";
    /// A head above the limit.
    HeadTooLarge, "head_too_large",
        "the head is larger than the limit; send fewer or shorter fields";
    /// More fields than the limit.
    TooManyFields, "too_many_fields",
        "the head has more fields than the limit; send fewer";
    /// A field line that starts with a space or tab.
    FoldedLine, "folded_line",
        "a field line starts with white space; send each field on one line";
    /// A field line without a colon.
    MissingColon, "missing_colon",
        "a field line has no colon";
    /// A field line that starts with the colon.
    EmptyName, "empty_name",
        "a field has no name";
    /// White space between a field's name and the colon.
    SpaceBeforeColon, "space_before_colon",
        "white space precedes the colon of a field; remove it";
    /// A field name with a byte that is not allowed in a token.
    FieldName, "field_name",
        "a field name contains a byte that is not allowed in a token";
    /// No `Host` in an HTTP/1.1 request.
    HostMissing, "host_missing",
        "an HTTP/1.1 request has no Host field; add one";
    /// More than one `Host`.
    HostRepeated, "host_repeated",
        "the request has more than one Host field; send one";
    /// A `Host` that is not a host and an optional port.
    HostInvalid, "host_invalid",
        "the Host field is not a host and an optional port";
    /// A `Host` that names another authority than the target.
    HostMismatch, "host_mismatch",
        "the Host field contradicts the authority of the request target";
    /// A `Content-Length` that is not a decimal number below 2⁶³ without sign and leading zeros, or one that the status does not allow.
    ContentLengthInvalid, "content_length_invalid",
        "the Content-Length is not one plain decimal number below 2^63, or its status allows no body";
    /// More than one `Content-Length`.
    ContentLengthRepeated, "content_length_repeated",
        "the message has more than one Content-Length field; send one";
    /// `Content-Length` and `Transfer-Encoding` in one message.
    LengthWithCoding, "length_with_coding",
        "the message has Content-Length and Transfer-Encoding; send one of them";
    /// More than one `Transfer-Encoding`.
    TransferEncodingRepeated, "transfer_encoding_repeated",
        "the message has more than one Transfer-Encoding field; send one";
    /// A `Transfer-Encoding` that is not a list of codings, or one that the status does not allow.
    TransferEncodingInvalid, "transfer_encoding_invalid",
        "the Transfer-Encoding is not a list of codings, or its status allows no body";
    /// A `Transfer-Encoding` that does not end in `chunked`, so that the end of the body is unknown.
    NotChunked, "not_chunked",
        "the Transfer-Encoding does not end in chunked, so the end of the body is unknown";
    /// `Transfer-Encoding` in an HTTP/1.0 message.
    CodingInHttp10, "coding_in_http10",
        "an HTTP/1.0 message has a Transfer-Encoding; send a Content-Length";
    /// A transfer coding other than `chunked` before the final `chunked`.
    UnknownCoding, "unknown_coding",
        "a transfer coding other than chunked is not supported";
    /// A `CONNECT` request that declares a body.
    ConnectWithBody, "connect_with_body",
        "a CONNECT request declares a body";
    /// A `Connection` field that is not a list of tokens, or several with more than 256 bytes.
    ConnectionInvalid, "connection_invalid",
        "the Connection field is not a list of tokens, or has more than 256 bytes";
    /// An `Expect` other than `100-continue`.
    ExpectationFailed, "expectation_failed",
        "the Expect field asks for something other than 100-continue";
    /// A body above the limit.
    BodyTooLarge, "body_too_large",
        "the body is larger than the limit";
    /// A chunk size that is empty, or has a prefix or another byte that is no hexadecimal digit.
    ChunkSize, "chunk_size",
        "a chunk size is not a plain hexadecimal number";
    /// A chunk size of more than 16 digits, or of 2⁶³ and more.
    ChunkSizeTooLong, "chunk_size_too_long",
        "a chunk size has more than 16 digits or is not below 2^63";
    /// A chunk extension with a control byte.
    ChunkExtension, "chunk_extension",
        "a chunk extension contains a control byte";
    /// Chunk extensions above the limit.
    ExtensionsTooLong, "extensions_too_long",
        "the chunk extensions are longer than the limit; send none";
    /// The data of a chunk that no CR LF follows.
    ChunkEnd, "chunk_end",
        "the data of a chunk is not followed by CR LF";
    /// A trailer field that would change the framing or the meaning of the body.
    ForbiddenTrailer, "forbidden_trailer",
        "a trailer field would change the framing or the meaning of the body";
    /// A trailer section above the limit.
    TrailersTooLarge, "trailers_too_large",
        "the trailer section is larger than the limit";
    /// The end of the input inside a message.
    UnexpectedEnd, "unexpected_end",
        "the connection ended inside a message";
    /// A head that was not complete in time.
    HeadTimeout, "head_timeout",
        "the head was not complete in time";
    /// A body without progress.
    BodyTimeout, "body_timeout",
        "the body made no progress in time";
}

impl RefusalReason {
    /// Returns the position of the reason in [`ALL`](RefusalReason::ALL), for an array of counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the status of the response that a server sends.
    ///
    /// Reasons that only occur in responses have the status of a gateway, 502.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::HeadTimeout | Self::BodyTimeout => 408,
            Self::BodyTooLarge => 413,
            Self::StartLineTooLong => 414,
            Self::ExpectationFailed => 417,
            Self::HeadTooLarge | Self::TooManyFields | Self::TrailersTooLarge => 431,
            Self::UnknownCoding => 501,
            Self::StatusLine => 502,
            Self::VersionNotSupported => 505,
            _ => 400,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_at_its_index_and_has_its_own_word() {
        for (i, reason) in RefusalReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
            let name = format!("{reason:?}").to_ascii_lowercase();
            assert_eq!(reason.word().replace('_', ""), name);
        }
    }

    #[test]
    fn every_status_is_that_of_an_error() {
        for reason in RefusalReason::ALL {
            assert!((400..600).contains(&reason.status()), "{reason:?}");
        }
    }
}
