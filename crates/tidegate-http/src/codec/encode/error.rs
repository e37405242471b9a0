//! Why something cannot be written.

/// The reason why a part of a message cannot be written.
///
/// The output is unchanged.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::{EncodeError, encode};
///
/// let mut out = Vec::new();
/// let split = encode::field(&mut out, "X-Name", b"a\r\nSet-Cookie: b");
/// assert_eq!(split, Err(EncodeError::FieldValue));
/// assert!(out.is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A field name that is not a token.
    #[error("the field name is not a token; use letters, digits and hyphens")]
    FieldName,
    /// A field value with CR, LF, NUL or another control byte.
    #[error("the field value contains a control byte such as CR or LF; remove or encode it")]
    FieldValue,
    /// `Content-Length` or `Transfer-Encoding` as a plain field.
    #[error("the framing of a message is not a plain field; declare it with `framing`")]
    FramingField,
    /// A trailer field that would change the framing or the meaning of the body.
    #[error("the field is not allowed as a trailer; send it in the head")]
    ForbiddenTrailer,
    /// A status outside of 100 to 999.
    #[error("the status is not a number from 100 to 999")]
    Status,
    /// A method that is not a token.
    #[error("the method is not a token")]
    Method,
    /// A request target with a byte that must be percent-encoded, or of no valid form.
    #[error("the request target has no valid form, or a byte that must be percent-encoded")]
    Target,
    /// More data than declared.
    #[error("the body is longer than its declared length; declare the right length or use chunks")]
    BodyTooLong,
    /// Less data than declared.
    #[error("the body is shorter than its declared length; close the connection")]
    BodyTooShort,
    /// Trailers after a body that is not chunked.
    #[error("only a chunked body has trailers; send the fields in the head")]
    NoTrailers,
    /// Data or a second end after the end of the body.
    #[error("the body has already ended")]
    Finished,
    /// A change of the protocol that the request does not allow, or whose head is not complete.
    #[error(
        "the protocol cannot be changed so; accept an `Upgrade` without a body with a field \
         `Upgrade`, or a `CONNECT` with a status 2xx, with handlers that fit each other"
    )]
    Switch,
    /// A head with more fields or bytes than a head can have.
    #[error("the head has too many fields or bytes; send fewer")]
    HeadTooLarge,
}
