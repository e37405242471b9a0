//! Groups of event loops: how a loop is chosen, and how the number of active loops follows the
//! load.
//!
//! | file | what |
//! |---|---|
//! | `chooser.rs` | how the next event loop is chosen: [`Choose`](chooser::Choose) |
//! | `active.rs` | the list of the event loops that get new work |
//! | `scaling.rs` | when loops are added and given up: the policy, and the decision as pure data |
//! | `scaler.rs` | the thread that samples the event loops and applies the decision |
//! | `termination.rs` | combines the ends of the event loops into the end of the group |
//! | `event_loop_group.rs` | [`EventLoopGroup`](event_loop_group::EventLoopGroup), the handle |
//! | `collect.rs` | the metrics of a group, described for an exporter |
//! | `builder.rs` | the builder of a group |
//!
//! Each file uses only those above it, and the handles of one event loop (`handle/`). An event loop
//! does not know its group.

mod active;
pub(crate) mod builder;
pub(crate) mod chooser;
mod collect;
pub(crate) mod event_loop_group;
pub(crate) mod scaler;
pub(crate) mod scaling;
pub(crate) mod termination;
