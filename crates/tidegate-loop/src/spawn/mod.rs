//! Futures on a loop.

pub(crate) mod future;
