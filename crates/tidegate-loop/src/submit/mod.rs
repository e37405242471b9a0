//! How a task is submitted, and what happens if it is refused.

pub(crate) mod reject;
