//! Frame decoders: split a stream by line, by delimiter, by fixed size or by length field.

mod delimited;
mod length;
mod time_limit;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use crate::channel::{UserEvent, ends_input};
use crate::errors::NetError;
use crate::message::Nothing;
use crate::pipeline::{HandlerContext, Inbound, InboundContext};

pub use self::delimited::{DelimiterFrames, LineFrames};
pub use self::length::{LengthField, LengthFrames, LengthPrefix};
use self::time_limit::TimeLimit;

/// The result of a search for a frame in the available bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No complete frame yet.
    More,
    /// A frame from `start` to `end`. The next frame begins at `next`.
    Frame {
        start: usize,
        end: usize,
        next: usize,
    },
    /// A number of bytes that belong to no frame.
    Skip(usize),
}

/// The rule that separates frames.
pub(super) trait FrameRule: 'static {
    /// Searches for a frame at the start of `bytes`.
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError>;

    /// Returns `true` if the available bytes belong to a frame that was refused.
    fn skips(&self) -> bool {
        false
    }
}

/// Splits a stream into frames.
///
/// If no partial frame is stored, frames are slices of the received bytes. Only the rest of a
/// partial frame is copied, so a connection between two frames holds no memory.
#[derive(Debug)]
pub(super) struct FrameDecoder<C> {
    cut: C,
    rest: BytesMut,
    /// The size of `rest` that counts against the memory cap of the server.
    held: usize,
    /// The number of frames made of the last bytes. Some may not have reached the next handler yet.
    made: usize,
    time_limit: TimeLimit,
}

impl<C: FrameRule> FrameDecoder<C> {
    fn new(cut: C) -> Self {
        Self {
            cut,
            rest: BytesMut::new(),
            held: 0,
            made: 0,
            time_limit: TimeLimit::default(),
        }
    }

    /// Passes each frame to `fire`. An error ends this call; the bytes that were not searched yet
    /// are searched with the next call.
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

    /// Records what a read has left: how many frames it made, and the partial frame. `refused` says
    /// whether a frame was refused in this read or before.
    #[inline]
    fn end_read(&mut self, made: usize, refused: bool, ctx: &mut HandlerContext<'_>) {
        self.made = made;
        self.count_rest(ctx);
        let skips = self.cut.skips();
        let is_new = made > 0 || (refused && !skips);
        let incomplete = skips || !self.rest.is_empty();
        self.time_limit.record(incomplete, is_new, ctx);
    }

    /// Counts the bytes of the partial frame.
    #[inline]
    fn count_rest(&mut self, ctx: &mut HandlerContext<'_>) {
        let (before, held) = (self.held, self.rest.len());
        self.held = held;
        match held.checked_sub(before) {
            Some(0) => {}
            Some(more) => ctx.hold_input(more),
            None => ctx.release_input(before - held),
        }
    }

    /// Returns the bytes that are not part of a frame yet, for the next handler.
    ///
    /// If the last bytes made several frames, the rest would overtake those that are still on their
    /// way, so that is an error.
    fn take_undecoded(&mut self) -> Result<Bytes, NetError> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() || self.cut.skips() {
            return Ok(Bytes::new());
        }
        if self.made < 2 {
            return Ok(rest.freeze());
        }
        let (size, made) = (rest.len(), self.made);
        let what = format!("{size} bytes behind {made} frames, and their decoder was taken out");
        Err(NetError::ProtocolViolation(what))
    }
}

fn cut_all<C: FrameRule, B: AsRef<[u8]>>(
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

/// Implements the inbound side of a handler with its `cutter`.
macro_rules! cuts_frames {
    ($handler:ty) => {
        impl $handler {
            /// Sets the time limit for a whole frame, from its first byte to its last; zero, the
            /// default, means no limit. A frame that takes longer is a
            /// [`NetError::FrameTimeout`]. So a peer that sends a byte now and then cannot keep a
            /// connection for ever. Time in which a handler holds reads back does not count: if the
            /// channel does not read at the end of the limit, the limit starts again. If the peer ends
            /// its stream within a frame and the channel stays open, that frame has no limit.
            pub fn timeout(mut self, limit: Duration) -> Self {
                self.cutter.time_limit.set(limit);
                self
            }
        }

        impl Inbound for $handler {
            type In = Bytes;
            type Out = Bytes;
            type Write = Nothing;
            const BLOCKING: Blocking = Blocking::Never;

            /// Passes the rest on, because the protocol has changed and the next handler needs it.
            fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
                if !ctx.channel().is_active() {
                    return;
                }
                match self.cutter.take_undecoded() {
                    Ok(rest) if rest.is_empty() => {}
                    Ok(rest) => ctx.fire_read(rest),
                    Err(why) => ctx.fire_error(Failure::new(why)),
                }
                self.cutter.count_rest(ctx);
            }

            fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
                self.cutter.made = 0;
                ctx.fire_read_complete();
            }

            fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
                let mut rest = Some(bytes);
                let mut made = 0;
                let mut refused = self.cutter.cut.skips();
                while let Some(bytes) = rest.take() {
                    let fed = self.cutter.feed(bytes, |frame| {
                        made += 1;
                        ctx.fire_read(frame);
                    });
                    if let Err(why) = fed {
                        ctx.fire_error(Failure::new(why));
                        rest = Some(Bytes::new());
                        refused = true;
                    }
                }
                self.cutter.end_read(made, refused, ctx);
            }

            fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
                if ends_input(&event) {
                    self.cutter.time_limit.end();
                }
                ctx.fire_event(event);
            }

            fn timer(&mut self, _: u64, ctx: &mut InboundContext<'_, Self>) {
                if let Some(why) = self.cutter.time_limit.check(ctx) {
                    ctx.fire_error(Failure::new(why));
                }
            }
        }
    };
}

use cuts_frames;

/// Splits a stream into frames of a fixed size.
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
    cutter: FrameDecoder<Fixed>,
}

impl FixedFrames {
    /// Creates a decoder for frames of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`FramesError`] if `size` is zero.
    pub fn of(size: usize) -> Result<Self, FramesError> {
        if size == 0 {
            return Err(FramesError("a frame has at least one byte"));
        }
        Ok(Self {
            cutter: FrameDecoder::new(Fixed { size }),
        })
    }
}

cuts_frames!(FixedFrames);

#[derive(Debug)]
struct Fixed {
    size: usize,
}

impl FrameRule for Fixed {
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

/// The error for an invalid configuration of a frame decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FramesError(&'static str);

impl fmt::Display for FramesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(what) = self;
        write!(f, "{what}")
    }
}

impl Error for FramesError {}

tidegate_core::debug_as_display!(FramesError);

#[cfg(test)]
mod tests {
    //! The memory of a decoder is bounded by its largest frame, for any input.

    use super::delimited::DelimiterRule;
    use super::length::LengthRule;
    use super::*;

    fn most_held<C: FrameRule>(cut: C, byte: u8) -> usize {
        let mut cutter = FrameDecoder::new(cut);
        let pieces = (0..5_000).map(|_| Bytes::from(vec![byte; 100]));
        let held = pieces.map(|piece| {
            let _ = cutter.feed(piece, drop);
            cutter.rest.capacity()
        });
        held.max().unwrap_or(0)
    }

    #[test]
    fn many_short_frames_are_looked_at_once() {
        let delimiters = ["||", ";"].map(Bytes::from).to_vec();
        let mut cutter = FrameDecoder::new(DelimiterRule::new(delimiters, 10));
        let mut frames = 0;
        // If each frame searched all the bytes again, this would practically never end.
        let fed = cutter.feed(Bytes::from(vec![b';'; 4 << 20]), |_| frames += 1);
        assert!(fed.is_ok());
        assert_eq!(frames, 4 << 20);
    }

    #[test]
    fn a_frame_that_never_ends_is_not_kept() {
        let lines = DelimiterRule::new(vec![Bytes::from("\n")], 1_000);
        assert!(most_held(lines, b'x') < 4_000);
        let field = LengthField::u32();
        let counted = |max_len| LengthRule {
            field,
            max_len,
            skip: 0,
        };
        assert!(most_held(counted(1_000), 0xff) < 4_000);
        assert!(most_held(counted(1_000), 0) < 4_000);
    }
}
