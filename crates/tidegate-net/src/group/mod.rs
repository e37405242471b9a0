//! Groups of event loops with I/O, and how channels and user-defined sources get onto a loop.
//!
//! `net_group` has the loops and gives access to their selectors, `builder` creates them, `placement`
//! places channels on them; `roaming` does all three for roaming loops. `block_on` drives a loop on
//! the calling thread. `collect` describes the metrics of a group. Depends on the
//! [`reactor`](crate::reactor), the [`channel`](crate::channel) and the
//! [`pipeline`](crate::pipeline); servers and clients are above.

mod block_on;
mod builder;
mod collect;
mod net_group;
mod placement;
#[cfg(feature = "roaming")]
mod roaming;
#[cfg(not(feature = "roaming"))]
#[path = "no_roaming.rs"]
mod roaming;

pub use self::block_on::block_on;
pub use self::builder::NetGroupBuilder;
pub use self::net_group::{NetGroup, pinned};
pub(crate) use self::placement::LoopTarget;
pub use self::placement::{ChannelPlacement, ChannelPlacer};
#[cfg(feature = "roaming")]
pub use self::roaming::roaming;
