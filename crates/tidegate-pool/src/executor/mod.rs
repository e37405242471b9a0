//! What executors of every kind have in common: the promise behind a submitted closure, the default
//! bound of a queue, and what is said of an executor's end.
//!
//! * `answer`: the promise that travels with a closure, and [`NeverBegun`], its failure when the
//!   executor ended first.
//! * `handed_back`: [`HandedBack`], the tasks that an executor returns when it ends.
//! * `left`: tells waiters that such a task will not start.
//! * `shutdown`: [`Quiet`], how an executor is asked to end, and [`ShutdownError`], why that failed.
//! * `bound`: how many tasks may wait when nothing else is said.
//! * `delegate`: implements `Executor` for a handle.
//!
//! The worker pool and ordered views use these, and so do the event loops of `tidegate-loop`.
//! Nothing here knows a pool, a view or a loop. `left` and `shutdown` know `handed_back`, which
//! knows `answer`.

mod answer;
mod bound;
mod delegate;
mod handed_back;
mod left;
mod shutdown;

pub use self::answer::{Answer, NeverBegun, drop_untaken};
pub use self::bound::{BOUND_VARIABLE, DEFAULT_BOUND, default_bound};
pub(crate) use self::delegate::delegate_executor;
pub use self::handed_back::HandedBack;
pub use self::left::Left;
pub use self::shutdown::{Quiet, ShutdownError};
