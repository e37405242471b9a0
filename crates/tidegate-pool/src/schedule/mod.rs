//! Scheduled and periodic tasks of executors that run on several threads: worker pools and ordered
//! views.
//!
//! | file | what |
//! |---|---|
//! | `period.rs` | when a periodic task runs again, [`Missed`] and [`PeriodError`] |
//! | `repeat.rs` | a periodic task; event loops use it too |
//! | `target.rs` | what a timer needs of an executor |
//! | `scheduled_task.rs` | a task from the call of `schedule` to its last run |
//! | `task_timer.rs` | the heap of pending tasks, and the thread that submits those that are due |
//! | `methods.rs` | the methods of pools and views, as a macro |
//!
//! `period` is the lowest file; `repeat` uses it, and `scheduled_task` uses all others.
//! `task_timer` and `scheduled_task` use each other. This module uses `executor` and does not know
//! pools or views: they implement `ScheduleTarget`.
//!
//! An event loop keeps its timers itself (`schedule` of `tidegate-loop`), because its own thread
//! runs them. A pool has no such thread, so a timer gets a thread with the first task that is
//! scheduled. That thread only submits: no closure runs or is dropped on it, except those that are
//! left when the timer is closed, because nothing waits for the thread then.

mod methods;
mod period;
mod repeat;
mod scheduled_task;
mod target;
mod task_timer;

pub(crate) use self::methods::schedule_methods;
pub use self::period::{Missed, Period, PeriodError};
pub use self::repeat::Repeat;
pub(crate) use self::scheduled_task::{once, repeat};
pub(crate) use self::target::ScheduleTarget;
pub(crate) use self::task_timer::TaskTimer;
