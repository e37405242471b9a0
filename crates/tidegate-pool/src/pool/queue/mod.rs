//! Jobs, and the queues in which they wait for a free thread.
//!
//! * `job`: [`Job`], a task with its criticality and its cancellation token.
//! * `job_queue`: [`JobQueue`], the trait of a queue.
//! * `job_list`: [`JobList`], the default queue.
//! * `users_queue`: [`UsersQueue`], a queue of the user's own, with the jobs that it orders.
//!
//! This module does not depend on the pool. How many jobs may wait, and which lane goes first, is
//! decided in `core`.

mod job;
mod job_list;
mod job_queue;
mod users_queue;

pub use self::job::Job;
pub use self::job_list::JobList;
pub use self::job_queue::{JobKey, JobQueue, Popped};
pub(crate) use self::users_queue::{Breach, UsersQueue};
