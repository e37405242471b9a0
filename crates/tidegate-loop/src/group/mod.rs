//! Several loops, how one is chosen, and how their number follows the load.
//!
//! | file | what |
//! |---|---|
//! | `chooser.rs` | how the next loop is chosen: [`Choose`](chooser::Choose) |
//! | `scaling.rs` | when loops are added and given up: the policy, and the decision as pure data |
//! | `scaler.rs` | the thread that watches the loops and follows the decision |
//! | `termination.rs` | the end of a group, out of the ends of its loops |
//! | `event_loop_group.rs` | [`EventLoopGroup`](event_loop_group::EventLoopGroup), the handle |
//! | `builder.rs` | how a group is described and made |
//!
//! Each file knows those above it, and the handles of one loop (`handle/`). No loop knows its group.

pub(crate) mod builder;
pub(crate) mod chooser;
pub(crate) mod event_loop_group;
pub(crate) mod scaler;
pub(crate) mod scaling;
pub(crate) mod termination;
