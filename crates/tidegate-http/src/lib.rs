//! HTTP/1.1 on Tidegate's channels.
//!
//! The crate has one part so far, the [`codec`]: it reads and writes messages and does no I/O. The
//! server is built on it.
//!
//! ```
//! use tidegate_http::codec::{BodyLimits, HeadLimits, HeadTable, Method, RequestDecoder};
//!
//! let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
//! let mut table = HeadTable::new();
//! let received = b"GET /hello?name=x HTTP/1.1\r\nHost: example.org\r\n\r\n";
//!
//! let head = decoder.head(received, &mut table)?.expect("the head is complete");
//! assert_eq!(head.method(), Method::Get);
//! assert_eq!((head.path(), head.query()), ("/hello", Some("name=x")));
//! assert_eq!(head.get("host"), Some(&b"example.org"[..]));
//! # Ok::<(), tidegate_http::codec::RefusalReason>(())
//! ```
#![forbid(unsafe_code)]

pub mod codec;
