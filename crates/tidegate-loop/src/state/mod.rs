//! What the handles of a loop and its thread share.

pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod metrics;
pub(crate) mod shared;
