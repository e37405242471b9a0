//! What a loop lends to the channel whose handlers run: memory that they write into, a place for
//! received memory that they have consumed, and a clock that is cheap to read.
//!
//! It goes back to the loop at the end of the turn, so an idle channel holds none. An output has one
//! of four capacities that are unlike those of other buffers. By its capacity it is recognised when
//! it has been sent, and is then used again.

use bytes::{Bytes, BytesMut};
use tidegate_core::Clock;
use tidegate_core::internal::{CoarseClock, FastClock, as_nanos};

use super::chunk::{Chunk, PIECE, PIECES, counted};

/// Capacity of a new output in bytes.
const OUTPUT: usize = 8 * 1024 - 64;
/// How often the capacity of an output may double until it is no longer used again.
const DOUBLINGS: u32 = 3;
/// Maximum number of outputs that are kept for use: so many channels of a batch send together.
const KEPT: usize = PIECES;
/// Maximum number of received pieces that wait to go back.
const CONSUMED: usize = 2 * PIECES;

/// The memory, and the clock, that a loop lends to one channel at a time.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// The memory that the running handler writes into; empty between two calls of handlers.
    output: BytesMut,
    /// Memory for the next outputs, with the last used on top.
    spare: Vec<BytesMut>,
    /// Received memory that handlers have consumed.
    consumed: Vec<BytesMut>,
    /// A note of the pipeline: the base and the length of its stack when the output was begun.
    pub(crate) begun_at: (u32, u32),
    /// The loop's clock, and how far it can be behind. `None` until it is read.
    clock: Option<(CoarseClock, u64)>,
    /// The loop's clock, read from the cycle counter. `None` until there was a deadline.
    fast: Option<FastClock>,
}

impl Lent {
    /// Makes sure that there is memory to write into.
    pub(crate) fn begin_output(&mut self) {
        if self.output.capacity() == 0 {
            self.output = self.spare.pop().unwrap_or_else(|| counted(OUTPUT));
        }
    }

    /// Returns the memory to write into.
    #[inline(always)]
    pub(crate) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// Removes and returns what was written; `None` if nothing was.
    pub(crate) fn take_output(&mut self) -> Option<Bytes> {
        if self.output.is_empty() {
            return None;
        }
        let mut output = std::mem::take(&mut self.output);
        if !is_output(output.capacity()) {
            output = refitted(output);
        }
        Some(output.freeze())
    }

    /// Takes the memory of `bytes`, which a handler has consumed, if no other part of it is in use.
    /// Otherwise returns the bytes: their drop may be user code.
    pub(crate) fn give_back(&mut self, bytes: Bytes) -> Option<Bytes> {
        let mut memory = match bytes.try_into_mut() {
            Ok(memory) => memory,
            Err(bytes) => return Some(bytes),
        };
        memory.clear();
        // Nearly always it is a received piece.
        if memory.capacity() != PIECE {
            memory = self.keep_output(memory)?;
        }
        if self.consumed.len() < CONSUMED {
            self.consumed.push(memory);
        }
        None
    }

    /// Keeps `memory`, which is empty and not shared, if it is an output. Otherwise returns it.
    pub(super) fn keep_output(&mut self, mut memory: BytesMut) -> Option<BytesMut> {
        if !is_output(memory.capacity()) {
            // A part of it was sent before the rest, and its start was cut off.
            let _ = memory.try_reclaim(OUTPUT);
        }
        if !is_output(memory.capacity()) {
            return Some(memory);
        }
        if self.spare.len() < KEPT {
            self.spare.push(memory);
        }
        None
    }

    /// Returns a time of the loop's clock: the present or a few milliseconds later, never earlier.
    #[inline]
    pub(crate) fn coarse_nanos(&mut self, clock: &Clock) -> u64 {
        let (clock, behind) = self.clock.get_or_insert_with(|| {
            let coarse = CoarseClock::new(clock);
            let behind = as_nanos(coarse.error_bound());
            self.fast = Some(FastClock::new(clock));
            (coarse, behind)
        });
        clock.nanos().saturating_add(*behind)
    }

    /// Returns the present time of the loop's clock.
    #[inline]
    pub(crate) fn nanos(&self, clock: &Clock) -> u64 {
        let fast = self.fast.as_ref();
        fast.map_or_else(|| clock.nanos(), FastClock::nanos)
    }

    /// Returns the consumed memory to the buffer into which it was received.
    #[inline]
    pub(crate) fn return_consumed(&mut self, chunk: &mut Chunk) {
        while let Some(memory) = self.consumed.pop() {
            chunk.take_memory(memory);
        }
    }
}

/// Returns `true` if memory of this capacity is an output.
#[inline]
fn is_output(capacity: usize) -> bool {
    (0..=DOUBLINGS).any(|doublings| capacity == OUTPUT << doublings)
}

/// Moves an output that has grown by more than its capacity into memory that will be recognised,
/// unless it is too large.
#[cold]
fn refitted(output: BytesMut) -> BytesMut {
    let mut sizes = (0..=DOUBLINGS).map(|doublings| OUTPUT << doublings);
    match sizes.find(|size| *size >= output.len()) {
        Some(size) => {
            let mut fitting = counted(size);
            fitting.extend_from_slice(&output);
            fitting
        }
        None => output,
    }
}

#[cfg(test)]
mod tests {
    //! Memory that comes back is used again, and no other memory is.

    use bytes::Buf;

    use super::*;

    fn write(lent: &mut Lent, content: &[u8]) -> Bytes {
        lent.begin_output();
        lent.output().extend_from_slice(content);
        let bytes = lent.take_output().unwrap();
        assert_eq!(bytes, content);
        bytes
    }

    #[test]
    fn an_output_that_was_sent_is_written_into_again() {
        let mut lent = Lent::default();
        let first = write(&mut lent, b"one");
        let at = first.as_ptr();
        assert!(lent.give_back(first).is_none());
        let mut second = write(&mut lent, b"two");
        assert_eq!(second.as_ptr(), at);
        second.advance(2);
        assert!(lent.give_back(second).is_none());
        let third = write(&mut lent, b"3");
        assert_eq!(third.as_ptr(), at, "a part of the second was sent before");
    }

    #[test]
    fn nothing_written_is_no_output_and_keeps_the_memory() {
        let mut lent = Lent::default();
        lent.begin_output();
        let at = lent.output().as_ptr();
        assert!(lent.take_output().is_none());
        assert_eq!(write(&mut lent, b"x").as_ptr(), at);
    }

    #[test]
    fn an_output_that_grew_is_used_again_unless_it_is_too_large() {
        for (size, again) in [
            (9_000, true),
            (40_000, true),
            (65_024, true),
            (66_000, false),
        ] {
            let mut lent = Lent::default();
            let large = write(&mut lent, &vec![7; size]);
            let at = large.as_ptr();
            lent.give_back(large);
            lent.begin_output();
            assert_eq!(lent.output().as_ptr() == at, again, "{size}");
            assert_eq!(lent.output().capacity() >= size, again, "{size}");
        }
    }

    #[test]
    fn memory_that_is_still_referenced_or_not_the_loops_is_not_written_into() {
        let mut lent = Lent::default();
        let kept = write(&mut lent, b"kept");
        assert!(lent.give_back(kept.clone()).is_some());
        assert!(lent.give_back(Bytes::from_static(b"for ever")).is_some());
        assert!(lent.give_back(Bytes::from(vec![0; 20_000])).is_none());
        write(&mut lent, b"other");
        assert_eq!(kept, "kept");
    }

    #[test]
    fn only_a_few_outputs_are_kept() {
        let mut lent = Lent::default();
        let many: Vec<_> = (0..3 * KEPT).map(|_| write(&mut lent, b"x")).collect();
        for one in many {
            lent.give_back(one);
        }
        assert_eq!((lent.spare.len(), lent.consumed.len()), (KEPT, 0));
    }

    #[test]
    fn memory_that_a_program_put_in_place_of_the_output_is_sent_too() {
        let mut lent = Lent::default();
        lent.begin_output();
        *lent.output() = BytesMut::from(&b"its own"[..]);
        assert_eq!(lent.take_output().unwrap(), "its own");
        lent.begin_output();
        drop(std::mem::take(lent.output()));
        assert!(lent.take_output().is_none());
        assert_eq!(write(&mut lent, b"next"), "next");
    }
}
