//! Jobs, and where they wait until a thread is free.
//!
//! * `job`: [`Job`], a task with what a queue and a policy may want to know of it.
//! * `job_queue`: [`JobQueue`], the trait of a queue.
//! * `job_list`: [`JobList`], the default queue.
//!
//! Nothing here knows a pool: how many jobs may wait, and which lane goes first, is decided in
//! `core`.

mod job;
mod job_list;
mod job_queue;

pub use self::job::Job;
pub use self::job_list::JobList;
pub use self::job_queue::{JobKey, JobQueue, Popped};
