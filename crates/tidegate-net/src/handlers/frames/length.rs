//! Frames with a length field: a decoder and an encoder.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use super::{Found, FrameDecoder, FrameRule, FramesError, cuts_frames};
use crate::channel::{UserEvent, ends_input};
use crate::errors::NetError;
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// The position and format of the length field of a frame.
///
/// ```
/// use tidegate_net::handlers::LengthField;
///
/// let field = LengthField { offset: 2, ..LengthField::u32() };
/// assert_eq!((field.size, field.strip), (4, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthField {
    /// The number of bytes before the field.
    pub offset: usize,
    /// The size of the field in bytes: 1, 2, 3, 4 or 8.
    pub size: usize,
    /// `true` if the least significant byte comes first.
    pub little_endian: bool,
    /// Added to the value of the field to get the number of bytes that follow the field.
    pub adjust: i64,
    /// The number of bytes to remove from the start of each frame.
    pub strip: usize,
}

impl LengthField {
    /// Returns a two-byte big-endian field at the start of each frame; the decoder removes the
    /// field.
    pub fn u16() -> Self {
        Self::of(2)
    }

    /// Returns a four-byte big-endian field at the start of each frame; the decoder removes the
    /// field.
    pub fn u32() -> Self {
        Self::of(4)
    }

    fn of(size: usize) -> Self {
        Self {
            offset: 0,
            size,
            little_endian: false,
            adjust: 0,
            strip: size,
        }
    }

    fn check(&self) -> Result<(), FramesError> {
        if !matches!(self.size, 1 | 2 | 3 | 4 | 8) {
            return Err(FramesError("a length field has 1, 2, 3, 4 or 8 bytes"));
        }
        if self.offset.checked_add(self.size).is_none() {
            return Err(FramesError("a length field ends within the address space"));
        }
        Ok(())
    }

    fn read(&self, field: &[u8]) -> u64 {
        let add = |length: u64, byte: &u8| length << 8 | u64::from(*byte);
        if self.little_endian {
            field.iter().rev().fold(0, add)
        } else {
            field.iter().fold(0, add)
        }
    }
}

/// Splits a stream into frames that contain their length.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::{LengthField, LengthFrames, LengthPrefix};
///
/// let mut channel = EmbeddedChannel::new(|p| {
///     p.add("frames", LengthFrames::new(LengthField::u16(), 1024).expect("two bytes will do"))
///         .add_outbound("prefix", LengthPrefix::new(LengthField::u16()).expect("two bytes"))
/// })?;
/// channel.receive(&b"\0\x03abc\0\x01"[..]);
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "abc");
/// channel.write_outbound(Bytes::from("answer"));
/// assert_eq!(channel.sent(), &b"\0\x06answer"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LengthFrames {
    cutter: FrameDecoder<LengthRule>,
}

impl LengthFrames {
    /// Creates a decoder for frames with such a field, of at most `max_len` bytes. The length field
    /// and the bytes before it count, also if they are stripped.
    ///
    /// # Errors
    ///
    /// [`FramesError`] if the field is invalid, or does not fit into a frame of `max_len` bytes.
    pub fn new(field: LengthField, max_len: usize) -> Result<Self, FramesError> {
        field.check()?;
        if max_len < (field.offset + field.size).max(field.strip) {
            return Err(FramesError(
                "the longest frame ends before its length field",
            ));
        }
        let cut = LengthRule {
            field,
            max_len,
            skip: 0,
        };
        Ok(Self {
            cutter: FrameDecoder::new(cut),
        })
    }
}

cuts_frames!(LengthFrames);

#[derive(Debug)]
pub(super) struct LengthRule {
    pub(super) field: LengthField,
    pub(super) max_len: usize,
    /// The number of bytes still to skip: a whole frame that is too long, or the bytes up to the
    /// end of a length field with an impossible value.
    pub(super) skip: u64,
}

impl FrameRule for LengthRule {
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError> {
        if self.skip > 0 {
            let here = usize::try_from(self.skip).unwrap_or(usize::MAX);
            let here = here.min(bytes.len());
            self.skip -= here as u64;
            return Ok(match here {
                0 => Found::More,
                count => Found::Skip(count),
            });
        }
        let field = &self.field;
        let head = field.offset + field.size;
        let Some(number) = bytes.get(field.offset..head) else {
            return Ok(Found::More);
        };
        let said = field.read(number);
        let length = i128::from(said) + i128::from(field.adjust) + head as i128;
        if length < (head.max(field.strip)) as i128 {
            self.skip = head as u64;
            let what = format!("a length of {said} where the frame has a head of {head} bytes");
            return Err(NetError::ProtocolViolation(what));
        }
        if length > self.max_len as i128 {
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            self.skip = length;
            let max_len = self.max_len;
            return Err(NetError::FrameTooLong {
                length,
                max: max_len,
            });
        }
        let end = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes.len() < end {
            return Ok(Found::More);
        }
        Ok(Found::Frame {
            start: field.strip,
            end,
            next: end,
        })
    }

    fn skips(&self) -> bool {
        self.skip > 0
    }
}

/// Prefixes each written message with its length.
///
/// `offset` and `strip` of the field are ignored; `adjust` is subtracted from the length.
#[derive(Clone, Copy, Debug)]
pub struct LengthPrefix {
    field: LengthField,
}

impl LengthPrefix {
    /// Creates an encoder with such a field.
    ///
    /// # Errors
    ///
    /// [`FramesError`] if the field is invalid.
    pub fn new(field: LengthField) -> Result<Self, FramesError> {
        field.check()?;
        Ok(Self { field })
    }
}

impl Outbound for LengthPrefix {
    type Take = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        let size = self.field.size;
        let length = bytes.len() as i128 - i128::from(self.field.adjust);
        let max_len = if size == 8 {
            u64::MAX
        } else {
            (1 << (8 * size)) - 1
        };
        let Ok(length) = u64::try_from(length) else {
            let what = format!("{} bytes, and a length below zero", bytes.len());
            return refuse(NetError::ProtocolViolation(what), ctx);
        };
        if length > max_len {
            let max_len = usize::try_from(max_len).unwrap_or(usize::MAX);
            return refuse(
                NetError::FrameTooLong {
                    length,
                    max: max_len,
                },
                ctx,
            );
        }
        // Length and payload are one message, so that a refused or cancelled write leaves no length
        // behind.
        let mut frame = BytesMut::with_capacity(size + bytes.len());
        if self.field.little_endian {
            frame.put_slice(&length.to_le_bytes()[..size]);
        } else {
            frame.put_slice(&length.to_be_bytes()[8 - size..]);
        }
        frame.put_slice(&bytes);
        ctx.write(frame.freeze());
    }
}

/// Refuses a frame: fails the promise of the write, or fires an error event if there is none.
fn refuse(why: NetError, ctx: &mut OutboundContext<'_, LengthPrefix>) {
    let why = Failure::new(why);
    match ctx.take_promise() {
        Some(promise) => drop(promise.fail(why)),
        None => ctx.fire_error(why),
    }
}
