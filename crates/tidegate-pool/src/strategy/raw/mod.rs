//! The atomic words of the strategies: which thread holds the producer, which stand-in is reserved,
//! whether the monitor is awake, and which loans it takes care of.

mod lookout;
mod producer_cell;
mod standby;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;
mod vigil;

pub use self::lookout::Lookout;
pub use self::producer_cell::{Asked, Closing, Coming, Glance, Held, Loan, ProducerCell, Rest};
pub use self::standby::Standby;
pub use self::vigil::{Rung, Vigil};
