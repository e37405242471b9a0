//! How a loop gets a thread, and what it keeps on it.

pub(crate) mod local;
pub(crate) mod run;
pub(crate) mod slot;
