//! Reports loops that are stuck in a task.

pub(crate) mod report;
pub(crate) mod watching;
