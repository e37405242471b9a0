//! Code that all kinds of executors share: the promise of a submitted closure, the default bound of
//! a queue, and the report of an executor's end.
//!
//! * `task_promise`: the promise that is stored with a closure, and [`NotStartedError`], its error
//!   if the executor ended before the closure started.
//! * `displaced`: [`DisplacedError`], its error if the task was dropped to make room for others.
//! * `handed_back`: [`HandedBack`], the tasks that an executor returns when it ends.
//! * `unstarted_tasks`: wakes the waiters of tasks that will not start.
//! * `shutdown`: [`Quiet`], the parameters of a shutdown, and [`ShutdownError`], why it failed.
//! * `end_home`: the home of a completion that ends with an executor.
//! * `bound`: the default for how many tasks may wait.
//! * `delegate`: implements `Executor` for a handle.
//!
//! The worker pool, the ordered views and the event loops of `tidegate-loop` use this module. It
//! does not depend on any of them. `unstarted_tasks` and `shutdown` use `handed_back`, which uses
//! `task_promise`, which uses `displaced`.

mod bound;
mod delegate;
mod displaced;
mod end_home;
mod handed_back;
mod shutdown;
mod task_promise;
mod unstarted_tasks;

pub use self::bound::{BOUND_VARIABLE, DEFAULT_BOUND, default_bound};
pub(crate) use self::delegate::delegate_executor;
pub use self::displaced::DisplacedError;
pub(crate) use self::displaced::{displacing, is_displacing};
pub use self::end_home::{EndHome, run_task_of};
pub(crate) use self::end_home::{is_in_view_over, mark_view, mark_worker};
pub use self::handed_back::HandedBack;
pub(crate) use self::handed_back::WeakHandedBack;
pub use self::shutdown::{Quiet, ShutdownError};
pub use self::task_promise::{NotStartedError, TaskPromise};
pub use self::unstarted_tasks::UnstartedTasks;
