//! The HTTP/1.1 codec: pure data, no I/O, no allocation per message.
//!
//! A [`RequestDecoder`] (of a server) or a [`ResponseDecoder`] (of a client) reads the messages of
//! one connection. A head borrows from the received bytes; a body is a sequence of ranges of the
//! received bytes. The functions of [`encode`] and a [`BodyEncoder`] write messages into memory of
//! the caller.
//!
//! The codec is strict. A message that two programs could read differently is refused, with a
//! [`RefusalReason`] that has a status and a word for a counter. A decoder that refused a message
//! looks at no further byte.
//!
//! ```
//! use tidegate_http::codec::{
//!     BodyEvent, BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder,
//! };
//!
//! let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
//! let mut table = HeadTable::new();
//! let received = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
//!
//! let mut rest = &received[..];
//! let head = decoder.head(rest, &mut table)?.expect("the head is complete");
//! rest = &rest[head.len()..];
//! let mut body = Vec::new();
//! loop {
//!     let step = decoder.body(rest)?;
//!     match step.event {
//!         BodyEvent::Data(range) => body.extend_from_slice(&rest[range]),
//!         BodyEvent::Trailers(_) => {}
//!         BodyEvent::More => unreachable!("the message is complete"),
//!         BodyEvent::End => break,
//!     }
//!     rest = &rest[step.consumed..];
//! }
//! assert_eq!(body, b"hello");
//! # Ok::<(), RefusalReason>(())
//! ```
//!
//! | file or folder | what it holds |
//! |---|---|
//! | `refusal`, `limits` | [`RefusalReason`]; [`HeadLimits`] and [`BodyLimits`] |
//! | `chars`, `probe` | the classes of bytes, and searches eight bytes at a time; counts inspected bytes in tests |
//! | `known`, `method`, `version` | [`KnownField`]; [`Method`]; [`Version`] |
//! | `framing` | [`BodyFraming`]: where a body ends |
//! | [`encode`] | writes heads, bodies and dates |
//! | `head` | heads: the table of offsets, the parser, the views, the patchable copies |
//! | `body` | the decoders of bodies; trailers |
//! | `decoder` | [`RequestDecoder`] and [`ResponseDecoder`]: heads and bodies in turn |
//!
//! A file uses only files that are listed before it.

mod body;
pub(crate) mod chars;
mod decoder;
pub mod encode;
mod framing;
mod head;
mod known;
mod limits;
mod method;
mod probe;
mod refusal;
mod version;

pub use self::body::{BodyEvent, BodyStep, Trailers};
pub use self::decoder::{Decoder, RequestDecoder, ResponseDecoder};
pub use self::encode::{BodyEncoder, EncodeError, FieldLines, HttpDate};
pub use self::framing::BodyFraming;
pub use self::head::{
    Field, Fields, Head, HeadTable, OfRequest, OfResponse, OwnedHead, OwnedRequestHead,
    RequestHead, ResponseHead, TargetForm,
};
pub use self::known::KnownField;
pub use self::limits::{BodyLimits, HeadLimits, MAX_FIELDS};
pub use self::method::Method;
pub use self::refusal::RefusalReason;
pub use self::version::Version;

pub(crate) use self::head::OwnedResponseHead;
