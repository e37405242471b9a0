//! Writes messages into memory of the caller.
//!
//! Each function takes any [`BufMut`](bytes::BufMut) that grows: a `Vec<u8>`, or a `BytesMut` that an
//! event loop lends. It checks everything before it writes the first byte, so that an error leaves
//! the output as it was. It allocates nothing itself.
//!
//! ```
//! use tidegate_http::codec::{BodyEncoder, BodyFraming, encode};
//!
//! let mut out = Vec::new();
//! encode::status_line(&mut out, 200)?;
//! encode::field(&mut out, "Content-Type", b"text/plain")?;
//! encode::framing(&mut out, BodyFraming::Length(5));
//! encode::head_end(&mut out);
//! let mut body = BodyEncoder::new(BodyFraming::Length(5));
//! body.data(&mut out, b"hello")?;
//! body.finish(&mut out)?;
//! assert_eq!(
//!     out,
//!     b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
//! );
//! # Ok::<(), tidegate_http::codec::EncodeError>(())
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `error` | [`EncodeError`] |
//! | `status` | the standard reason phrases |
//! | `date` | [`HttpDate`] |
//! | `head` | start lines and field lines |
//! | `lines` | [`FieldLines`]: checked once, written many times |
//! | `body` | [`BodyEncoder`] |

mod body;
mod date;
mod error;
mod head;
mod lines;
mod status;

pub use self::body::BodyEncoder;
pub use self::date::HttpDate;
pub use self::error::EncodeError;
pub use self::head::{
    CONTINUE, connection_close, connection_keep_alive, date, field, framing, head_end,
    request_line, status_line,
};
pub use self::lines::FieldLines;
pub use self::status::reason;

pub(super) use self::body::is_forbidden_trailer;
pub(super) use self::head::{check_name, check_value, put};

pub(crate) use self::head::{OK_LINE, end_with_length};
pub(crate) use self::lines::is_visible;
