//! What a loop owns, one turn of it, and the driver that it waits on.

pub(crate) mod budget;
pub(crate) mod driver;
pub(crate) mod due;
pub(crate) mod hand_out;
pub(crate) mod patience;
pub(crate) mod run_task;
pub(crate) mod turn;
