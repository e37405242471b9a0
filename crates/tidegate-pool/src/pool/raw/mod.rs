//! The words of a worker pool: where an idle worker waits, the reserve, and who gets a job.
//!
//! * [`Seat`]: one worker's place to wait. A job is put into the seat itself, so a worker that
//!   still looks on takes it without a system call, and one that sleeps is woken once.
//! * [`Reserve`]: idle workers that can be had without any lock, by one swap.
//! * [`Desk`]: the idle workers, the queue and the counts under one short lock. Every decision
//!   (hand over, start a thread, queue, sit down, leave) is made with that lock held, which is
//!   why no job can be queued while a worker that could take it falls asleep.
//!
//! # Scenarios
//!
//! *Idle worker.* A worker sits down only if nothing is queued, and says so under the lock. The
//! next job finds it there and goes into its seat; the queue is not even looked at.
//!
//! *One wakeup at a time.* A worker that was woken from its sleep is *on its way* until it has
//! come back to the desk. Jobs that come meanwhile are queued though others are idle; the
//! arriving worker runs its own job after it has sent the next worker after what waits. A burst so
//! costs its submitter one system call, not one for each job. If the queue has no room, another
//! idle worker is woken instead: nothing is refused while a worker is idle.
//!
//! *Rescue.* The idle worker that a queued job counted on may be claimed from the reserve, or
//! leave, before the arriving one can send it. The arriving worker then starts a thread, if one may
//! start, and that thread does the same when it comes to the desk. So whenever jobs wait and a
//! worker could be had for them, one is on its way, is being started, or a submitter looks after
//! them; all three end with a look at what waits. A worker that is about to leave looks, too. A
//! thread that could not be started is replaced by an idle one, or, where it was the only one, by
//! one more try.
//!
//! *A wakeup put off.* With somebody busy and everybody else asleep, a submitter queues its job and
//! looks for a moment whether the busy worker comes for it, as it does when jobs are short; that
//! saves a system call and a context switch for each job of a steady stream. If nobody comes, it
//! makes up for the wakeup. How long it looks, at most a microsecond, it learns from whether
//! that paid. A worker that looks on is handed the job before any of this.
//!
//! *Reserve.* The first idle workers sit in the reserve, where they can be claimed without the
//! lock. A job that would have to be queued claims them too, so none is kept while jobs wait. A
//! claim only ever takes away; only the desk puts somebody in, with the queue seen empty under
//! the lock.
//!
//! *Leaving.* A worker whose time is up gives up its place under the lock. If it finds that it
//! has none, somebody has claimed it: a job is on its way, and it waits for that.
#![expect(
    unsafe_code,
    reason = "jobs are handed from thread to thread by one word of a seat"
)]

mod desk;
mod patience;
mod reserve;
mod seat;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;
mod turn;

pub use self::desk::{Desk, DeskLimits, Growth, Next, Placed, Sent, Tally, Wake, Work};
pub use self::reserve::{MAX_RESERVED, Reserve};
pub use self::seat::{Seat, Slept};
pub use self::turn::Turn;
