//! The timing wheel: [`Wheel`], in `timing_wheel`, and what it is made of.
//!
//! | file | what it holds |
//! |---|---|
//! | `bits` | a set of numbers, by which the first list that is not empty is found |
//! | `pages` | cells in pages that are never moved |
//! | `lists` | numbers of entries, in lists of chunks |
//! | `entry` | an entry: one cell |
//! | `geometry` | ticks, slots and levels |
//! | `dial` | which entry hangs in which list |
//! | `gone` | cancellations that are not settled yet |
//! | `queue` | what is due and was not taken yet |
//! | `expired` | what comes out |
//! | `timing_wheel` | [`Wheel`] |
//!
//! Each knows only files above it.

mod bits;
mod dial;
mod entry;
mod expired;
mod geometry;
mod gone;
mod lists;
mod pages;
mod queue;
mod timing_wheel;

pub use self::expired::{Expired, WheelDrain};
pub(crate) use self::geometry::Geometry;
pub use self::geometry::WheelError;
pub use self::timing_wheel::Wheel;
