//! The decoder of one body, for all framings.

use std::ops::Range;

use crate::codec::framing::BodyFraming;
use crate::codec::limits::BodyLimits;
use crate::codec::refusal::RefusalReason;

use super::chunked::Chunked;
use super::event::{BodyEvent, BodyStep};

/// The decoder of one body.
#[derive(Debug, Clone)]
pub(in crate::codec) enum BodyDecoder {
    /// So many bytes are missing; the limit has not been checked yet if `true`.
    Length(u64, bool),
    Chunked(Chunked),
    /// So many bytes were received.
    UntilClose(u64),
}

impl BodyDecoder {
    /// Creates the decoder of a body, or returns `None` if the framing has none.
    #[inline]
    pub(in crate::codec) fn new(framing: BodyFraming) -> Option<Self> {
        match framing {
            BodyFraming::Empty | BodyFraming::Tunnel | BodyFraming::Length(0) => None,
            BodyFraming::Length(length) => Some(Self::Length(length, true)),
            BodyFraming::Chunked => Some(Self::Chunked(Chunked::new())),
            BodyFraming::UntilClose => Some(Self::UntilClose(0)),
        }
    }

    /// Decodes up to the next event. [`BodyEvent::End`] is the last one.
    pub(in crate::codec) fn decode(
        &mut self,
        input: &[u8],
        limits: &BodyLimits,
    ) -> Result<BodyStep, RefusalReason> {
        match self {
            Self::Chunked(chunked) => chunked.decode(input, limits),
            Self::Length(missing, true) if *missing > limits.body => {
                Err(RefusalReason::BodyTooLarge)
            }
            Self::Length(0, _) => Ok(BodyStep::new(0, BodyEvent::End)),
            Self::Length(missing, unchecked) => {
                *unchecked = false;
                let length = usize::try_from(*missing).unwrap_or(usize::MAX);
                let length = length.min(input.len());
                *missing -= length as u64;
                Ok(data(length))
            }
            Self::UntilClose(received) => {
                *received = received.saturating_add(input.len() as u64);
                match *received > limits.body {
                    true => Err(RefusalReason::BodyTooLarge),
                    false => Ok(data(input.len())),
                }
            }
        }
    }

    /// Returns the next part of data, with the number of bytes that it uses up, if it is in a chunk and
    /// has at most `most` bytes. Otherwise nothing is decoded.
    pub(in crate::codec) fn small_chunk(
        &mut self,
        input: &[u8],
        limits: &BodyLimits,
        most: usize,
    ) -> Option<(usize, Range<usize>)> {
        match self {
            Self::Chunked(chunked) => chunked.small_data(input, limits, most),
            Self::Length(..) | Self::UntilClose(_) => None,
        }
    }

    /// Returns how many bytes of the body are missing, if its length is known.
    pub(in crate::codec) fn missing(&self) -> Option<u64> {
        match self {
            Self::Length(missing, _) => Some(*missing),
            Self::Chunked(_) | Self::UntilClose(_) => None,
        }
    }

    /// Returns `true` if the body is complete when the peer closes the connection.
    pub(in crate::codec) fn ends_with_input(&self) -> bool {
        match self {
            Self::Chunked(chunked) => chunked.is_ended(),
            Self::Length(missing, _) => *missing == 0,
            Self::UntilClose(_) => true,
        }
    }
}

/// Returns the first `length` bytes as data.
fn data(length: usize) -> BodyStep {
    match length {
        0 => BodyStep::new(0, BodyEvent::More),
        _ => BodyStep::new(length, BodyEvent::Data(0..length)),
    }
}
