//! HTTP in a pipeline of handlers: a decoder and an encoder as one handler, as in Netty.
//!
//! | file | contents |
//! |---|---|
//! | `parts` | the messages: parts of requests and of responses |
//! | `sending` | the response that is being written, checked part by part |
//! | `http_codec` | the handler |

mod http_codec;
mod parts;
mod sending;
#[cfg(test)]
mod tests;

pub use self::http_codec::HttpCodec;
pub use self::parts::{RequestPart, ResponsePart};
