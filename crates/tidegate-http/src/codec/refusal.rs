//! Why a message is refused.

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
    /// An empty line before the start line. A server ignores the first one before each request.
    #[error("the message starts with an empty line; send the start line first")]
    EmptyLine,
    /// A line that ends in LF without CR.
    #[error("a line ends in LF without CR; end every line with CR LF")]
    BareLf,
    /// A CR that no LF follows.
    #[error("a CR is not followed by LF; end every line with CR LF")]
    BareCr,
    /// NUL or another control byte in a line.
    #[error("a line contains a control byte; remove it")]
    ControlByte,
    /// A request line that is not a method, a target and a version, separated by single spaces.
    #[error("the request line is not `METHOD target HTTP/1.1`, separated by single spaces")]
    RequestLine,
    /// A method with a byte that is not allowed in a token.
    #[error("the method contains a byte that is not allowed in a token")]
    Method,
    /// A target of none of the four forms, with a byte that a URI must encode, or of a form that does not fit the method.
    #[error(
        "the request target has no valid form for its method, or a byte that must be percent-encoded"
    )]
    Target,
    /// A version that is not `HTTP/` and two digits with a dot.
    #[error("the version is not `HTTP/` and two digits with a dot")]
    Version,
    /// A well-formed version other than 1.0 and 1.1.
    #[error("the HTTP version is neither 1.0 nor 1.1")]
    VersionNotSupported,
    /// A status line that is not a version, three digits and a reason.
    #[error("the status line is not `HTTP/1.1 200 reason`")]
    StatusLine,
    /// A start line above the limit.
    #[error("the start line is longer than the limit; shorten the target")]
    StartLineTooLong,
    /// A head above the limit.
    #[error("the head is larger than the limit; send fewer or shorter fields")]
    HeadTooLarge,
    /// More fields than the limit.
    #[error("the head has more fields than the limit; send fewer")]
    TooManyFields,
    /// A field line that starts with a space or tab.
    #[error("a field line starts with white space; send each field on one line")]
    FoldedLine,
    /// A field line without a colon.
    #[error("a field line has no colon")]
    MissingColon,
    /// A field line that starts with the colon.
    #[error("a field has no name")]
    EmptyName,
    /// White space between a field's name and the colon.
    #[error("white space precedes the colon of a field; remove it")]
    SpaceBeforeColon,
    /// A field name with a byte that is not allowed in a token.
    #[error("a field name contains a byte that is not allowed in a token")]
    FieldName,
    /// No `Host` in an HTTP/1.1 request.
    #[error("an HTTP/1.1 request has no Host field; add one")]
    HostMissing,
    /// More than one `Host`.
    #[error("the request has more than one Host field; send one")]
    HostRepeated,
    /// A `Host` that is not a host and an optional port.
    #[error("the Host field is not a host and an optional port")]
    HostInvalid,
    /// A `Host` that names another authority than the target.
    #[error("the Host field contradicts the authority of the request target")]
    HostMismatch,
    /// A `Content-Length` that is not a decimal number below 2⁶³ without sign and leading zeros, or one that the status does not allow.
    #[error(
        "the Content-Length is not one plain decimal number below 2^63, or its status allows no body"
    )]
    ContentLengthInvalid,
    /// More than one `Content-Length`.
    #[error("the message has more than one Content-Length field; send one")]
    ContentLengthRepeated,
    /// `Content-Length` and `Transfer-Encoding` in one message.
    #[error("the message has Content-Length and Transfer-Encoding; send one of them")]
    LengthWithCoding,
    /// More than one `Transfer-Encoding`.
    #[error("the message has more than one Transfer-Encoding field; send one")]
    TransferEncodingRepeated,
    /// A `Transfer-Encoding` that is not a list of codings, or one that the status does not allow.
    #[error("the Transfer-Encoding is not a list of codings, or its status allows no body")]
    TransferEncodingInvalid,
    /// A `Transfer-Encoding` that does not end in `chunked`, so that the end of the body is unknown.
    #[error("the Transfer-Encoding does not end in chunked, so the end of the body is unknown")]
    NotChunked,
    /// `Transfer-Encoding` in an HTTP/1.0 message.
    #[error("an HTTP/1.0 message has a Transfer-Encoding; send a Content-Length")]
    CodingInHttp10,
    /// A transfer coding other than `chunked` before the final `chunked`.
    #[error("a transfer coding other than chunked is not supported")]
    UnknownCoding,
    /// A `CONNECT` request that declares a body.
    #[error("a CONNECT request declares a body")]
    ConnectWithBody,
    /// A `Connection` field that is not a list of tokens, or several with more than 256 bytes.
    #[error("the Connection field is not a list of tokens, or has more than 256 bytes")]
    ConnectionInvalid,
    /// An `Expect` other than `100-continue`.
    #[error("the Expect field asks for something other than 100-continue")]
    ExpectationFailed,
    /// A body above the limit.
    #[error("the body is larger than the limit")]
    BodyTooLarge,
    /// A chunk size that is empty, or has a prefix or another byte that is no hexadecimal digit.
    #[error("a chunk size is not a plain hexadecimal number")]
    ChunkSize,
    /// A chunk size of more than 16 digits, or of 2⁶³ and more.
    #[error("a chunk size has more than 16 digits or is not below 2^63")]
    ChunkSizeTooLong,
    /// A chunk extension with a control byte.
    #[error("a chunk extension contains a control byte")]
    ChunkExtension,
    /// Chunk extensions above the limit.
    #[error("the chunk extensions are longer than the limit; send none")]
    ExtensionsTooLong,
    /// The data of a chunk that no CR LF follows.
    #[error("the data of a chunk is not followed by CR LF")]
    ChunkEnd,
    /// A trailer field that would change the framing or the meaning of the body.
    #[error("a trailer field would change the framing or the meaning of the body")]
    ForbiddenTrailer,
    /// A trailer section above the limit.
    #[error("the trailer section is larger than the limit")]
    TrailersTooLarge,
    /// The end of the input inside a message.
    #[error("the connection ended inside a message")]
    UnexpectedEnd,
    /// A head that was not complete in time.
    #[error("the head was not complete in time")]
    HeadTimeout,
    /// A body without progress.
    #[error("the body made no progress in time")]
    BodyTimeout,
}

impl RefusalReason {
    /// All reasons, in the order of their [`index`](RefusalReason::index).
    pub const ALL: &'static [Self] = &[
        Self::EmptyLine,
        Self::BareLf,
        Self::BareCr,
        Self::ControlByte,
        Self::RequestLine,
        Self::Method,
        Self::Target,
        Self::Version,
        Self::VersionNotSupported,
        Self::StatusLine,
        Self::StartLineTooLong,
        Self::HeadTooLarge,
        Self::TooManyFields,
        Self::FoldedLine,
        Self::MissingColon,
        Self::EmptyName,
        Self::SpaceBeforeColon,
        Self::FieldName,
        Self::HostMissing,
        Self::HostRepeated,
        Self::HostInvalid,
        Self::HostMismatch,
        Self::ContentLengthInvalid,
        Self::ContentLengthRepeated,
        Self::LengthWithCoding,
        Self::TransferEncodingRepeated,
        Self::TransferEncodingInvalid,
        Self::NotChunked,
        Self::CodingInHttp10,
        Self::UnknownCoding,
        Self::ConnectWithBody,
        Self::ConnectionInvalid,
        Self::ExpectationFailed,
        Self::BodyTooLarge,
        Self::ChunkSize,
        Self::ChunkSizeTooLong,
        Self::ChunkExtension,
        Self::ExtensionsTooLong,
        Self::ChunkEnd,
        Self::ForbiddenTrailer,
        Self::TrailersTooLarge,
        Self::UnexpectedEnd,
        Self::HeadTimeout,
        Self::BodyTimeout,
    ];

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

    /// Returns the word that names the reason in counters and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        WORDS[self.index()]
    }
}

/// The words of the reasons, in the order of [`RefusalReason::ALL`].
const WORDS: [&str; RefusalReason::ALL.len()] = [
    "empty_line",
    "bare_lf",
    "bare_cr",
    "control_byte",
    "request_line",
    "method",
    "target",
    "version",
    "version_not_supported",
    "status_line",
    "start_line_too_long",
    "head_too_large",
    "too_many_fields",
    "folded_line",
    "missing_colon",
    "empty_name",
    "space_before_colon",
    "field_name",
    "host_missing",
    "host_repeated",
    "host_invalid",
    "host_mismatch",
    "content_length_invalid",
    "content_length_repeated",
    "length_with_coding",
    "transfer_encoding_repeated",
    "transfer_encoding_invalid",
    "not_chunked",
    "coding_in_http10",
    "unknown_coding",
    "connect_with_body",
    "connection_invalid",
    "expectation_failed",
    "body_too_large",
    "chunk_size",
    "chunk_size_too_long",
    "chunk_extension",
    "extensions_too_long",
    "chunk_end",
    "forbidden_trailer",
    "trailers_too_large",
    "unexpected_end",
    "head_timeout",
    "body_timeout",
];

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
