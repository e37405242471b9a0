//! Roaming loops, which a strategy drives on the threads of a pool.

pub(crate) mod crew;
