//! The messages of an [`HttpCodec`](super::HttpCodec).

use bytes::Bytes;
use tidegate_net::Message;

use crate::codec::{BodyFraming, EncodeError, OwnedRequestHead, OwnedResponseHead, RefusalReason};

/// A part of a request, passed on by an [`HttpCodec`](super::HttpCodec): a head, any number of pieces
/// of its body, perhaps trailers, and an end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestPart {
    /// The head. Each one needs a response.
    Head(OwnedRequestHead),
    /// A piece of the body, or of the tunnel after a change of the protocol.
    Data(Bytes),
    /// The trailer fields, as they were received. [`Trailers`](crate::codec::Trailers) reads them.
    Trailers(Bytes),
    /// The end of the request.
    End,
    /// The client sent something that is not HTTP, or too much of it. The codec responds with the
    /// status of the reason, after the responses to earlier requests, and closes the connection. If
    /// the head of this request was passed on, it needs no response any more.
    Refused(RefusalReason),
}

/// A part of a response, written to an [`HttpCodec`](super::HttpCodec): a head, any number of pieces
/// of its body, and an end. Responses are written in the order of the requests.
///
/// ```
/// use tidegate_http::ResponsePart;
///
/// let [head, data, end] = ResponsePart::whole(200, "hello")?;
/// # let _ = (head, data, end);
/// # Ok::<(), tidegate_http::codec::EncodeError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ResponsePart {
    /// The head. With a status from 100 to 199 other than 101 it is an interim response, which has
    /// neither body nor end. If it declares no framing, the body is chunked, or ends with the
    /// connection in HTTP/1.0.
    Head(OwnedResponseHead),
    /// A piece of the body, or of the tunnel after a change of the protocol.
    Data(Bytes),
    /// The end of the response, with trailers, which only a chunked body has.
    End(Vec<(String, Vec<u8>)>),
}

impl ResponsePart {
    /// Returns the parts of a response with this status and body. The statuses 1xx and 204 declare no
    /// length, 205 a length of zero, and 304 none for an empty body: its length is that of the
    /// response with status 200.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Status`] if the status does not have three digits.
    pub fn whole(status: u16, body: impl Into<Bytes>) -> Result<[Self; 3], EncodeError> {
        let mut body = body.into();
        let mut head = OwnedResponseHead::with_status(status)?;
        let framing = BodyFraming::Length(body.len() as u64);
        head.set_framing(framing.declared_with(status))?;
        if status == 205 {
            body = Bytes::new();
        }
        Ok([Self::Head(head), Self::Data(body), Self::End(Vec::new())])
    }
}

impl Message for ResponsePart {
    fn size(&self) -> usize {
        match self {
            Self::Head(head) => size_of::<Self>() + head.as_head().as_bytes().len(),
            Self::Data(bytes) => bytes.len(),
            Self::End(_) => size_of::<Self>(),
        }
    }
}
