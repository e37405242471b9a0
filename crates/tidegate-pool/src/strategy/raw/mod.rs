//! The atomic words of the strategies: which thread holds the producer, which stand-in is reserved,
//! whether the monitor is awake, and which loans it takes care of.

mod monitor_state;
mod producer_cell;
mod stand_in_slot;
mod starvation_detector;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::monitor_state::{MonitorState, NotifyResult};
pub use self::producer_cell::{
    CellSnapshot, CloseResult, HelperRequest, LendResult, PendingHelper, ProducerCell,
    ProducerGuard, RestResult,
};
pub use self::stand_in_slot::StandInSlot;
pub use self::starvation_detector::StarvationDetector;
