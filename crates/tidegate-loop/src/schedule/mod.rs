//! Scheduled tasks, timeouts and sleeps.

pub(crate) mod scheduled_task;
pub(crate) mod sleep;
pub(crate) mod timeout;
