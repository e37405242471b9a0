//! The words of a strategy: who holds the producer, who stands by, and which loans a monitor
//! answers for.

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
