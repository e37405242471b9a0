//! Predicts how many bytes to offer the next read, from the last ones.
//!
//! Sizes come from a table of 53 entries: 16 to 496 in steps of 16, then doubling from 512 to
//! 1 GiB. A read that fills the offer moves four entries up; the second small one moves one entry
//! down. Nothing is allocated.

use std::error::Error;
use std::fmt;

/// Entries in the size table.
const ENTRIES: usize = 53;
/// Entries that are multiples of 16.
const SMALL: usize = 31;
const UP: u8 = 4;
const DOWN: u8 = 1;

/// The sizes that are offered, smallest first.
const SIZE_TABLE: [u32; ENTRIES] = table();

const fn table() -> [u32; ENTRIES] {
    let mut sizes = [0; ENTRIES];
    let mut at = 0;
    while at < ENTRIES {
        sizes[at] = if at < SMALL {
            16 * (at as u32 + 1)
        } else {
            512 << (at - SMALL)
        };
        at += 1;
    }
    sizes
}

/// Predicts the size of the next read of one channel. Sizes are multiples of 16 up to 496, and
/// powers of two from 512 to 1 GiB, within the bounds.
///
/// ```
/// use tidegate_net::ReadSize;
///
/// let mut size = ReadSize::default();
/// assert_eq!(size.next(), 2048);
/// size.record(2048); // filled: offer more
/// assert_eq!(size.next(), 32_768);
/// size.record(10);
/// assert_eq!(size.next(), 32_768, "one small read proves nothing");
/// size.record(10);
/// assert_eq!(size.next(), 16_384);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSize {
    next: u32,
    minimum: u32,
    maximum: u32,
    index: u8,
    lowest: u8,
    highest: u8,
    shrinks: bool,
}

impl ReadSize {
    /// The default smallest offer.
    pub const DEFAULT_MIN: u32 = 64;
    /// The default first offer.
    pub const DEFAULT_INITIAL: u32 = 2048;
    /// The default largest offer.
    pub const DEFAULT_MAX: u32 = 65_536;

    /// Creates a prediction between `minimum` and `maximum` that starts at `initial`.
    ///
    /// # Errors
    ///
    /// [`ReadSizeError`] unless 0 < minimum ≤ initial ≤ maximum.
    pub fn bounded(minimum: u32, initial: u32, maximum: u32) -> Result<Self, ReadSizeError> {
        if minimum == 0 || initial < minimum || maximum < initial {
            return Err(ReadSizeError {
                minimum,
                initial,
                maximum,
            });
        }
        let lowest = index_of(minimum);
        let highest = index_below(maximum);
        let index = index_below(initial);
        Ok(Self {
            next: SIZE_TABLE[usize::from(index)].clamp(minimum, maximum),
            minimum,
            maximum,
            index,
            lowest,
            highest,
            shrinks: false,
        })
    }

    /// Creates a prediction that is always `size`.
    ///
    /// # Errors
    ///
    /// [`ReadSizeError`] for a size of zero.
    pub fn fixed(size: u32) -> Result<Self, ReadSizeError> {
        let mut fixed = Self::bounded(size, size, size)?;
        // Marks the size as fixed.
        fixed.lowest = u8::MAX;
        Ok(fixed)
    }

    /// Returns `true` if the prediction never changes.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.lowest == u8::MAX
    }

    /// Returns how many bytes to offer the next read.
    #[inline]
    pub fn next(&self) -> usize {
        self.next as usize
    }

    /// Records that a read, or all reads of one turn, returned `bytes`.
    #[inline]
    pub fn record(&mut self, bytes: usize) {
        if self.is_fixed() {
            return;
        }
        if bytes >= self.next as usize {
            self.index = (self.index + UP).min(self.highest);
            self.next = self.clamped();
            self.shrinks = false;
            return;
        }
        let smaller = SIZE_TABLE[usize::from(self.index.saturating_sub(DOWN))];
        if bytes <= smaller as usize {
            if self.shrinks {
                self.index = self.index.saturating_sub(DOWN).max(self.lowest);
                self.next = self.clamped();
            }
            self.shrinks = !self.shrinks;
        }
    }

    /// Records that one read returned `bytes` and was the only one of its turn. This is the same as
    /// recording the read, if it filled its offer, and then the turn.
    #[inline]
    pub(crate) fn record_turn(&mut self, bytes: usize) {
        if bytes >= self.next() {
            self.record(bytes);
        }
        self.record(bytes);
    }

    /// Returns the current entry, limited to the bounds, which need not be entries.
    #[inline]
    fn clamped(&self) -> u32 {
        SIZE_TABLE[usize::from(self.index)].clamp(self.minimum, self.maximum)
    }
}

impl Default for ReadSize {
    fn default() -> Self {
        Self::bounded(Self::DEFAULT_MIN, Self::DEFAULT_INITIAL, Self::DEFAULT_MAX)
            .expect("the defaults are in order")
    }
}

/// Returns the index of the first entry that is not less than `size`; of the last one if there is
/// none.
fn index_of(size: u32) -> u8 {
    let at = SIZE_TABLE.partition_point(|&entry| entry < size);
    u8::try_from(at.min(ENTRIES - 1)).expect("the table is small")
}

/// Returns the index of the last entry that is not more than `size`; of the first one if there is
/// none.
fn index_below(size: u32) -> u8 {
    let at = index_of(size);
    if SIZE_TABLE[usize::from(at)] > size {
        at.saturating_sub(1)
    } else {
        at
    }
}

/// Bounds that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReadSizeError {
    /// The smallest requested offer.
    pub minimum: u32,
    /// The first requested offer.
    pub initial: u32,
    /// The largest requested offer.
    pub maximum: u32,
}

impl fmt::Display for ReadSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            minimum,
            initial,
            maximum,
        } = self;
        write!(
            f,
            "read sizes must be 0 < minimum ≤ initial ≤ maximum, and were {minimum}, \
                 {initial} and {maximum}"
        )
    }
}

impl Error for ReadSizeError {}

tidegate_core::debug_as_display!(ReadSizeError);

#[cfg(test)]
mod tests {
    //! The table, the search, and how offers follow reads.

    use super::*;

    fn sizes(size: &mut ReadSize, reads: &[usize]) -> Vec<usize> {
        let learn = |&bytes: &usize| {
            size.record(bytes);
            size.next()
        };
        reads.iter().map(learn).collect()
    }

    #[test]
    fn the_table_has_53_entries_by_sixteen_and_then_doubling() {
        assert_eq!(SIZE_TABLE.len(), 53);
        assert_eq!(SIZE_TABLE[..4], [16, 32, 48, 64]);
        assert_eq!(SIZE_TABLE[28..35], [464, 480, 496, 512, 1024, 2048, 4096]);
        assert_eq!(SIZE_TABLE[51..], [1 << 29, 1 << 30]);
        assert!(SIZE_TABLE.is_sorted());
    }

    #[test]
    fn the_search_finds_the_first_entry_that_suffices() {
        for (size, index) in [
            (0, 0),
            (1, 0),
            (16, 0),
            (17, 1),
            (496, 30),
            (497, 31),
            (512, 31),
            (513, 32),
            (1 << 30, 52),
            (u32::MAX, 52),
        ] {
            assert_eq!(index_of(size), index, "{size}");
        }
    }

    #[test]
    fn the_defaults_are_64_2048_and_64_kib() {
        let size = ReadSize::default();
        assert_eq!((size.minimum, size.next, size.maximum), (64, 2048, 65_536));
        for (minimum, initial, maximum) in [(0, 1, 1), (2, 1, 3), (1, 3, 2)] {
            let refused = ReadSize::bounded(minimum, initial, maximum).unwrap_err();
            assert!(refused.to_string().contains("minimum ≤ initial ≤ maximum"));
        }
    }

    #[test]
    fn the_minimum_is_rounded_up_and_the_others_down_and_all_are_kept() {
        let size = ReadSize::bounded(64, 9000, 9000).unwrap();
        assert_eq!(size.next(), 8192);
        let mut odd = ReadSize::bounded(81, 95, 95).unwrap();
        assert_eq!(odd.next(), 81);
        assert_eq!(
            sizes(&mut odd, &[81, 81, 1, 1, 1, 1]),
            [81, 81, 81, 95, 95, 95]
        );
    }

    #[test]
    fn a_full_read_moves_four_entries_up() {
        let mut small = ReadSize::bounded(16, 16, 1 << 30).unwrap();
        assert_eq!(sizes(&mut small, &[16, 80, 144]), [80, 144, 208]);
        let mut large = ReadSize::bounded(16, 512, 1 << 30).unwrap();
        assert_eq!(sizes(&mut large, &[512, 8192]), [8192, 131_072]);
        let mut bounded = ReadSize::default();
        assert_eq!(
            sizes(&mut bounded, &[2048, 32_768, 65_536]),
            [32_768, 65_536, 65_536]
        );
    }

    #[test]
    fn the_second_small_read_moves_one_entry_down() {
        let mut size = ReadSize::default();
        assert_eq!(sizes(&mut size, &[10, 10, 10, 10]), [2048, 1024, 1024, 512]);
        let down: Vec<_> = sizes(&mut size, &[10; 200]);
        assert_eq!(down.last(), Some(&64), "never below the minimum");
    }

    #[test]
    fn a_middling_read_changes_nothing_and_does_not_forgive_a_small_one() {
        let mut size = ReadSize::default();
        assert_eq!(sizes(&mut size, &[10, 1500, 10]), [2048, 2048, 1024]);
        assert_eq!(sizes(&mut size, &[10, 1024, 10]), [1024, 16_384, 16_384]);
    }

    #[test]
    fn a_fixed_size_never_changes() {
        let mut size = ReadSize::fixed(100).unwrap();
        assert_eq!(sizes(&mut size, &[100, 100, 1, 1, 1]), [100; 5]);
        assert_eq!(ReadSize::fixed(1).unwrap().next(), 1, "below the table");
        assert!(ReadSize::fixed(0).is_err());
    }
}
