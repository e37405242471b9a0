//! Handlers that everybody needs.

mod frames;
mod strings;

pub use self::frames::{
    BadFrames, DelimiterFrames, FixedFrames, LengthField, LengthFrames, LengthPrefix, LineFrames,
};
pub use self::strings::Strings;
