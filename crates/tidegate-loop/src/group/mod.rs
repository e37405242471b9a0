//! Several loops, how one is chosen, and how their number follows the load.

pub(crate) mod chooser;
pub(crate) mod event_loop_group;
pub(crate) mod scaling;
