//! The timing wheel: [`Wheel`], in `timing_wheel`, and its parts.
//!
//! | file | contents |
//! |---|---|
//! | `bits` | a bit set of numbers, which finds the first list that is not empty |
//! | `pages` | cells in pages that are never moved |
//! | `lists` | entry numbers, in lists of chunks |
//! | `entry` | an entry: one cell |
//! | `geometry` | ticks, slots and levels |
//! | `levels` | the lists of all levels: which entry is in which list |
//! | `cancelled_entries` | cancelled entries whose memory is not released yet |
//! | `queue` | due entries that were not taken yet |
//! | `expired` | entries that left the wheel |
//! | `timing_wheel` | [`Wheel`] |
//!
//! Each file uses only files above it.

mod bits;
mod cancelled_entries;
mod entry;
mod expired;
mod geometry;
mod levels;
mod lists;
mod pages;
mod queue;
mod timing_wheel;

pub use self::expired::Expired;
pub use self::geometry::WheelError;
pub use self::timing_wheel::Wheel;
