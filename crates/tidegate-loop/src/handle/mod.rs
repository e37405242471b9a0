//! Handles of a loop, and the builder that makes one.

pub(crate) mod as_executor;
pub(crate) mod builder;
pub(crate) mod event_loop;
pub(crate) mod placement;
