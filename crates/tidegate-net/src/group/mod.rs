//! Groups of event loops with I/O, and how channels and user-defined sources get onto a loop.
//!
//! `net_group` has the loops, `builder` creates them, `placement` places channels on them, `watch`
//! other sources; `block_on` drives a loop on the calling thread. `collect` describes the metrics
//! of a group. Depends on the [`reactor`](crate::reactor), the [`channel`](crate::channel) and the
//! [`pipeline`](crate::pipeline); servers and clients are above.

mod block_on;
mod builder;
mod collect;
mod net_group;
mod placement;
mod watch;

pub use self::block_on::block_on;
pub use self::builder::NetGroupBuilder;
pub use self::net_group::{NetGroup, pinned, roaming};
pub(crate) use self::placement::LoopTarget;
pub use self::placement::{ChannelPlacement, ChannelPlacer};
pub use self::watch::WatchAction;
