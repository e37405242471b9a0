//! Frames out of a stream: by line, by delimiter, by fixed size, by length field.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_promise::Failure;
use tidegate_sync::Blocking;

use crate::errors::NetError;
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext, Outbound, OutboundContext};

/// What a look at the bytes at hand found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing whole yet.
    More,
    /// A frame from `start` to `end`; what follows begins at `next`.
    Frame {
        start: usize,
        end: usize,
        next: usize,
    },
    /// Bytes that belong to no frame.
    Skip(usize),
}

/// How frames are told apart.
pub(super) trait Cut: 'static {
    /// Looks for a frame at the beginning of `bytes`.
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError>;
}

/// Cuts frames out of a stream.
///
/// While nothing waits, new bytes are cut where they lie; only the rest of a frame is copied, so
/// that a connection between two frames holds nothing.
#[derive(Debug)]
pub(super) struct Cutter<C> {
    cut: C,
    rest: BytesMut,
}

impl<C: Cut> Cutter<C> {
    fn new(cut: C) -> Self {
        Self {
            cut,
            rest: BytesMut::new(),
        }
    }

    /// Gives each frame to `fire`; an error ends this call, and what was not looked at yet is
    /// looked at with the next bytes.
    fn feed(&mut self, mut bytes: Bytes, mut fire: impl FnMut(Bytes)) -> Result<(), NetError> {
        if self.rest.is_empty() {
            let cut = &mut self.cut;
            let done = cut_all(cut, &mut bytes, |bytes, to| bytes.split_to(to), &mut fire);
            self.rest.extend_from_slice(&bytes);
            return done;
        }
        self.rest.extend_from_slice(&bytes);
        let take = |rest: &mut BytesMut, to| rest.split_to(to).freeze();
        let done = cut_all(&mut self.cut, &mut self.rest, take, &mut fire);
        if self.rest.is_empty() {
            self.rest = BytesMut::new();
        }
        done
    }
}

fn cut_all<C: Cut, B: AsRef<[u8]>>(
    cut: &mut C,
    bytes: &mut B,
    take: impl Fn(&mut B, usize) -> Bytes,
    fire: &mut impl FnMut(Bytes),
) -> Result<(), NetError> {
    loop {
        match cut.find(bytes.as_ref())? {
            Found::More => return Ok(()),
            Found::Skip(count) => drop(take(bytes, count)),
            Found::Frame { start, end, next } => {
                let frame = take(bytes, next);
                fire(frame.slice(start..end));
            }
        }
    }
}

/// Makes the inbound side of a handler out of its `cutter`.
macro_rules! cuts_frames {
    ($handler:ty) => {
        impl Inbound for $handler {
            type In = Bytes;
            type Out = Bytes;
            type Write = Nothing;
            const BLOCKING: Blocking = Blocking::Never;

            fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
                let mut rest = Some(bytes);
                while let Some(bytes) = rest.take() {
                    let fed = self.cutter.feed(bytes, |frame| ctx.fire_read(frame));
                    if let Err(why) = fed {
                        ctx.fire_error(Failure::new(why));
                        rest = Some(Bytes::new());
                    }
                }
            }
        }
    };
}

/// Frames that end with a line feed, which is cut off, with a carriage return before it.
///
/// A longer line is an error event, once; what follows it begins after its end.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::LineFrames;
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("lines", LineFrames::max(8)))?;
/// channel.receive("one\r\ntwo\n");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LineFrames {
    cutter: Cutter<Delimited>,
}

impl LineFrames {
    /// Lines of at most `most` bytes, their ends left out.
    pub fn max(most: usize) -> Self {
        let mut cut = Delimited::new(vec![Bytes::from_static(b"\n")], most);
        cut.trims = true;
        Self {
            cutter: Cutter::new(cut),
        }
    }
}

cuts_frames!(LineFrames);

/// Frames that end with one of several delimiters, which is cut off; the earliest one counts.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::DelimiterFrames;
///
/// let frames = || DelimiterFrames::new(["\0", "||"], 80).expect("delimiters are not empty");
/// let mut channel = EmbeddedChannel::new(|p| p.add("frames", frames()))?;
/// channel.receive("a\0b||c");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "a");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "b");
/// assert!(channel.read_inbound::<Bytes>().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DelimiterFrames {
    cutter: Cutter<Delimited>,
}

impl DelimiterFrames {
    /// Frames of at most `most` bytes between `delimiters`.
    ///
    /// # Errors
    ///
    /// [`BadFrames`] when there is none, or an empty one.
    pub fn new<D: Into<Bytes>>(
        delimiters: impl IntoIterator<Item = D>,
        most: usize,
    ) -> Result<Self, BadFrames> {
        let delimiters: Vec<Bytes> = delimiters.into_iter().map(Into::into).collect();
        if delimiters.is_empty() || delimiters.iter().any(Bytes::is_empty) {
            return Err(BadFrames("a delimiter has at least one byte"));
        }
        let cutter = Cutter::new(Delimited::new(delimiters, most));
        Ok(Self { cutter })
    }
}

cuts_frames!(DelimiterFrames);

#[derive(Debug)]
struct Delimited {
    delimiters: Vec<Bytes>,
    longest: usize,
    most: usize,
    /// Cuts a carriage return off, too.
    trims: bool,
    /// How far the bytes at hand were looked at.
    looked: usize,
    /// In the middle of a frame that is too long: its end is looked for.
    skipping: bool,
}

impl Delimited {
    fn new(delimiters: Vec<Bytes>, most: usize) -> Self {
        let longest = delimiters.iter().map(Bytes::len).max().unwrap_or(1);
        Self {
            delimiters,
            longest,
            most,
            trims: false,
            looked: 0,
            skipping: false,
        }
    }

    /// The first delimiter, and where it ends.
    fn first(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let from = self.looked;
        let found = self.delimiters.iter().filter_map(|delimiter| {
            let at = from + position(&bytes[from..], delimiter)?;
            Some((at, at + delimiter.len()))
        });
        // Of two at the same place the longer one.
        found.min_by_key(|&(at, end)| (at, usize::MAX - end))
    }
}

impl Cut for Delimited {
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError> {
        let Some((at, next)) = self.first(bytes) else {
            if self.skipping || bytes.len() > self.most + self.longest {
                let keep = bytes.len().min(self.longest - 1);
                self.looked = 0;
                let begins = !self.skipping;
                self.skipping = true;
                if begins {
                    return Err(NetError::FrameTooLong {
                        length: bytes.len() as u64,
                        most: self.most,
                    });
                }
                return Ok(match bytes.len() - keep {
                    0 => Found::More,
                    count => Found::Skip(count),
                });
            }
            self.looked = bytes.len().saturating_sub(self.longest - 1);
            return Ok(Found::More);
        };
        self.looked = 0;
        if std::mem::take(&mut self.skipping) {
            return Ok(Found::Skip(next));
        }
        let mut end = at;
        if self.trims && bytes[..end].ends_with(b"\r") {
            end -= 1;
        }
        if end > self.most {
            // The frame is whole: it is skipped with the next look.
            self.skipping = true;
            return Err(NetError::FrameTooLong {
                length: end as u64,
                most: self.most,
            });
        }
        Ok(Found::Frame {
            start: 0,
            end,
            next,
        })
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    match what {
        [one] => bytes.iter().position(|byte| byte == one),
        _ => bytes.windows(what.len()).position(|window| window == what),
    }
}

/// Frames of one size.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::FixedFrames;
///
/// let frames = || FixedFrames::of(3).expect("three is not zero");
/// let mut channel = EmbeddedChannel::new(|p| p.add("frames", frames()))?;
/// channel.receive("abcde");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "abc");
/// assert!(channel.read_inbound::<Bytes>().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FixedFrames {
    cutter: Cutter<Fixed>,
}

impl FixedFrames {
    /// Frames of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`BadFrames`] for a size of zero.
    pub fn of(size: usize) -> Result<Self, BadFrames> {
        if size == 0 {
            return Err(BadFrames("a frame has at least one byte"));
        }
        Ok(Self {
            cutter: Cutter::new(Fixed { size }),
        })
    }
}

cuts_frames!(FixedFrames);

#[derive(Debug)]
struct Fixed {
    size: usize,
}

impl Cut for Fixed {
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError> {
        if bytes.len() < self.size {
            return Ok(Found::More);
        }
        Ok(Found::Frame {
            start: 0,
            end: self.size,
            next: self.size,
        })
    }
}

/// How a length stands in a frame.
///
/// ```
/// use tidegate_net::handlers::LengthField;
///
/// let field = LengthField { offset: 2, ..LengthField::u32() };
/// assert_eq!((field.size, field.strip), (4, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthField {
    /// Bytes before it.
    pub offset: usize,
    /// Its own bytes: 1, 2, 3, 4 or 8.
    pub size: usize,
    /// Its bytes stand least significant first.
    pub little_endian: bool,
    /// What is added to it to have the number of bytes that follow it.
    pub adjust: i64,
    /// Bytes at the beginning of a frame that are cut off.
    pub strip: usize,
}

impl LengthField {
    /// Two bytes in front of each frame, which are cut off.
    pub fn u16() -> Self {
        Self::of(2)
    }

    /// Four bytes in front of each frame, which are cut off.
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

    fn check(&self) -> Result<(), BadFrames> {
        if !matches!(self.size, 1 | 2 | 3 | 4 | 8) {
            return Err(BadFrames("a length field has 1, 2, 3, 4 or 8 bytes"));
        }
        if self.offset.checked_add(self.size).is_none() {
            return Err(BadFrames("a length field ends within the address space"));
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

/// Frames that say how long they are.
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
    cutter: Cutter<Counted>,
}

impl LengthFrames {
    /// Frames with such a field, of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// [`BadFrames`] for a field that cannot be read.
    pub fn new(field: LengthField, most: usize) -> Result<Self, BadFrames> {
        field.check()?;
        let cut = Counted {
            field,
            most,
            skip: 0,
        };
        Ok(Self {
            cutter: Cutter::new(cut),
        })
    }
}

cuts_frames!(LengthFrames);

#[derive(Debug)]
struct Counted {
    field: LengthField,
    most: usize,
    /// Bytes of a frame that is too long.
    skip: u64,
}

impl Cut for Counted {
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
            return Err(NetError::Garbage(what));
        }
        if length > self.most as i128 {
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            self.skip = length;
            let most = self.most;
            return Err(NetError::FrameTooLong { length, most });
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
}

/// Puts its length in front of what is written.
///
/// The field's offset and strip do not matter here; `adjust` is subtracted.
#[derive(Clone, Copy, Debug)]
pub struct LengthPrefix {
    field: LengthField,
}

impl LengthPrefix {
    /// Prefixes with such a field.
    ///
    /// # Errors
    ///
    /// [`BadFrames`] for a field that cannot be written.
    pub fn new(field: LengthField) -> Result<Self, BadFrames> {
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
        let most = if size == 8 {
            u64::MAX
        } else {
            (1 << (8 * size)) - 1
        };
        let Some(length) = u64::try_from(length).ok().filter(|length| *length <= most) else {
            let why = NetError::FrameTooLong {
                length: bytes.len() as u64,
                most: usize::try_from(most).unwrap_or(usize::MAX),
            };
            let why = Failure::new(why);
            match ctx.take_promise() {
                Some(promise) => drop(promise.fail(why)),
                None => ctx.fire_error(why),
            }
            return;
        };
        let mut prefix = BytesMut::with_capacity(size);
        if self.field.little_endian {
            prefix.put_slice(&length.to_le_bytes()[..size]);
        } else {
            prefix.put_slice(&length.to_be_bytes()[8 - size..]);
        }
        ctx.write(prefix.freeze());
        ctx.write(bytes);
    }
}

/// A way to frame that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrames(&'static str);

impl fmt::Display for BadFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for BadFrames {}

#[cfg(test)]
mod tests {
    //! What a decoder holds is bounded by its largest frame, whatever comes.

    use super::*;

    fn most_held<C: Cut>(cut: C, byte: u8) -> usize {
        let mut cutter = Cutter::new(cut);
        let pieces = (0..5_000).map(|_| Bytes::from(vec![byte; 100]));
        let held = pieces.map(|piece| {
            let _ = cutter.feed(piece, drop);
            cutter.rest.capacity()
        });
        held.max().unwrap_or(0)
    }

    #[test]
    fn a_frame_that_never_ends_is_not_kept() {
        let lines = Delimited::new(vec![Bytes::from("\n")], 1_000);
        assert!(most_held(lines, b'x') < 4_000);
        let field = LengthField::u32();
        let counted = |most| Counted {
            field,
            most,
            skip: 0,
        };
        assert!(most_held(counted(1_000), 0xff) < 4_000);
        assert!(most_held(counted(1_000), 0) < 4_000);
    }
}
