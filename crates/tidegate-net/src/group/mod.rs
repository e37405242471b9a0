//! Groups of event loops with I/O, and how a channel comes to live on one of them.

mod net_group;
mod residence;
mod watch;

pub use self::net_group::{NetGroup, pinned, pinned_with, roaming, roaming_with};
pub(crate) use self::residence::{Residence, Residing, Settler};
pub use self::watch::Keep;
