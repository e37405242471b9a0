//! Frames that end with a line feed or with another delimiter.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_promise::Failure;

use super::{Found, FrameDecoder, FrameRule, FramesError, cuts_frames};
use crate::channel::{UserEvent, ends_input};
use crate::errors::NetError;
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};

/// Splits a stream into lines, without the line feed and a carriage return before it.
///
/// A line that is too long causes one error event; the next frame begins after its end. Like every
/// frame decoder, this handler passes on the bytes that it holds when it is removed. Frames that it
/// made before stay frames, so bytes behind several of them are an error event.
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
///
/// With a time limit, a line that begins has to end:
///
/// ```
/// use std::time::Duration;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::LineFrames;
///
/// let lines = LineFrames::max(80).timeout(Duration::from_secs(10));
/// let mut channel = EmbeddedChannel::new(|p| p.add("lines", lines))?;
/// for _ in 0..10 {
///     channel.receive("x");
///     channel.advance(Duration::from_secs(1));
/// }
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LineFrames {
    cutter: FrameDecoder<DelimiterRule>,
}

impl LineFrames {
    /// Creates a decoder for lines of at most `max_len` bytes, not counting the line end.
    pub fn max(max_len: usize) -> Self {
        let mut cut = DelimiterRule::new(vec![Bytes::from_static(b"\n")], max_len);
        cut.trims = true;
        Self {
            cutter: FrameDecoder::new(cut),
        }
    }
}

cuts_frames!(LineFrames);

/// Splits a stream at any of several delimiters, which are removed. The delimiter that ends first
/// counts; of two that end at the same byte, the longer one.
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
    cutter: FrameDecoder<DelimiterRule>,
}

impl DelimiterFrames {
    /// Creates a decoder for frames of at most `max_len` bytes between `delimiters`.
    ///
    /// # Errors
    ///
    /// [`FramesError`] if there is no delimiter, or if one is empty or can never be the first to
    /// end.
    pub fn new<D: Into<Bytes>>(
        delimiters: impl IntoIterator<Item = D>,
        max_len: usize,
    ) -> Result<Self, FramesError> {
        let delimiters: Vec<Bytes> = delimiters.into_iter().map(Into::into).collect();
        if delimiters.is_empty() || delimiters.iter().any(Bytes::is_empty) {
            return Err(FramesError("a delimiter has at least one byte"));
        }
        let hidden = |one: &Bytes| {
            let before_its_end = &one[..one.len() - 1];
            let mut others = delimiters.iter();
            others.any(|other| position(before_its_end, other).is_some())
        };
        if delimiters.iter().any(hidden) {
            let why = "a delimiter that contains another one before its end is never found";
            return Err(FramesError(why));
        }
        let cutter = FrameDecoder::new(DelimiterRule::new(delimiters, max_len));
        Ok(Self { cutter })
    }
}

cuts_frames!(DelimiterFrames);

#[derive(Debug)]
pub(super) struct DelimiterRule {
    delimiters: Vec<Bytes>,
    longest: usize,
    max_len: usize,
    /// `true` if a carriage return before the delimiter is removed, too.
    trims: bool,
    /// The number of available bytes that were already searched.
    looked: usize,
    /// `true` inside a frame that is too long: its end is searched.
    skipping: bool,
}

impl DelimiterRule {
    pub(super) fn new(delimiters: Vec<Bytes>, max_len: usize) -> Self {
        let longest = delimiters.iter().map(Bytes::len).max().unwrap_or(1);
        Self {
            delimiters,
            longest,
            max_len,
            trims: false,
            looked: 0,
            skipping: false,
        }
    }

    /// Returns the start and end of the first delimiter. Looks at each byte once, for any input.
    fn first(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let from = self.looked;
        if let [only] = self.delimiters.as_slice() {
            let at = from + position(&bytes[from..], only)?;
            return Some((at, at + only.len()));
        }
        (from..bytes.len()).find_map(|last| {
            let until = &bytes[..=last];
            let ending = |one: &&Bytes| one.last() == until.last() && until.ends_with(one);
            let longest = self
                .delimiters
                .iter()
                .filter(ending)
                .map(Bytes::len)
                .max()?;
            Some((last + 1 - longest, last + 1))
        })
    }
}

impl FrameRule for DelimiterRule {
    fn find(&mut self, bytes: &[u8]) -> Result<Found, NetError> {
        let Some((at, next)) = self.first(bytes) else {
            if self.skipping || bytes.len() > self.max_len.saturating_add(self.longest) {
                let keep = bytes.len().min(self.longest - 1);
                self.looked = 0;
                let begins = !self.skipping;
                self.skipping = true;
                if begins {
                    return Err(NetError::FrameTooLong {
                        length: bytes.len() as u64,
                        max: self.max_len,
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
        if end > self.max_len {
            // The frame is complete: the next call skips it.
            self.skipping = true;
            return Err(NetError::FrameTooLong {
                length: end as u64,
                max: self.max_len,
            });
        }
        Ok(Found::Frame {
            start: 0,
            end,
            next,
        })
    }

    fn skips(&self) -> bool {
        self.skipping
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    match what {
        [one] => bytes.iter().position(|byte| byte == one),
        _ => bytes.windows(what.len()).position(|window| window == what),
    }
}
