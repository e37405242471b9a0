//! The lines of one loop that wait for the writer, and the samples of the loop.

use super::line;
use super::record::{Outcome, Record};
use crate::config::types::Log;

/// The most bytes of the lines that wait.
const MOST_BYTES: usize = 4 << 20;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is not one of those that are logged.
    LeftOut,
    /// It waits, and the writer knows already that there are lines.
    Waits,
    /// It waits, and the writer must be woken.
    First,
    /// There is no place for it.
    Lost,
}

/// The lines of one loop. Only this loop and the writer use them.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    text: Vec<u8>,
    lines: usize,
    samples: [u32; 3],
    closed: bool,
}

impl Buffer {
    /// Takes a record, if it is sampled and at most `most` lines wait.
    pub(super) fn take(&mut self, record: &Record<'_>, settings: &Log, most: usize) -> Taken {
        if !self.is_sampled(record.outcome, settings) {
            return Taken::LeftOut;
        }
        if self.closed || self.lines >= most || self.text.len() >= MOST_BYTES {
            return Taken::Lost;
        }
        line::write(&mut self.text, record, settings.query);
        self.lines += 1;
        match self.lines {
            1 => Taken::First,
            _ => Taken::Waits,
        }
    }

    /// Exchanges the lines with an empty text. Returns their number.
    pub(super) fn empty_into(&mut self, text: &mut Vec<u8>) -> usize {
        std::mem::swap(&mut self.text, text);
        std::mem::take(&mut self.lines)
    }

    /// Takes no further lines.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns `true` for the share of an outcome, evenly spread: of a share of 10 %, each tenth.
    fn is_sampled(&mut self, outcome: Outcome, settings: &Log) -> bool {
        let sum = &mut self.samples[outcome as usize];
        *sum += u32::from(outcome.share(settings).hundredths());
        let is_sampled = *sum >= 10_000;
        if is_sampled {
            *sum -= 10_000;
        }
        is_sampled
    }
}
