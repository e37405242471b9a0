//! How a loop ends.

pub(crate) mod steps;
