//! Bodies: from received bytes to ranges of them.
//!
//! | file | what it holds |
//! |---|---|
//! | `event` | [`BodyStep`], [`BodyEvent`]: what a decoder returns |
//! | `trailers` | [`Trailers`] and their rules |
//! | `chunked` | the state machine of chunks |
//! | `decoder` | one decoder for all framings |

mod chunked;
mod decoder;
mod event;
mod trailers;

pub use self::event::{BodyEvent, BodyStep};
pub use self::trailers::Trailers;

pub(super) use self::decoder::BodyDecoder;
