//! How much more work an executor can take. A strategy reads this before it gives a thread away.

/// The free threads and queue places of an executor at one moment.
///
/// The values are a snapshot: another thread may take the last place before the reader acts. Use
/// them to choose between two correct actions (give a thread away or keep it), never to predict
/// whether a task will be accepted.
///
/// ```
/// use tidegate_pool::FreeThreads;
///
/// let full = FreeThreads { idle: 0, may_start: 0, places: 3 };
/// assert!(!full.has_thread());
/// assert!(FreeThreads { may_start: 1, ..full }.has_thread());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeThreads {
    /// Threads that are idle and not needed for queued tasks or leases.
    pub idle: usize,
    /// Threads that may still be started. Tasks of the runtime itself can use all of them. If the
    /// pool [queues first](crate::Growth::QueueFirst), other tasks can use those beyond the core
    /// size only while the queue is full.
    pub may_start: usize,
    /// Tasks that the queue takes before it refuses.
    pub places: usize,
}

impl FreeThreads {
    /// Returns `true` if a task submitted now would get a thread, idle or new.
    pub fn has_thread(self) -> bool {
        self.idle > 0 || self.may_start > 0
    }
}

/// An executor that can report its free threads.
pub trait Headroom {
    /// Returns the free threads and places at this moment. Takes no lock and never waits.
    fn free_threads(&self) -> FreeThreads;

    /// Returns `true` if a task submitted now would get a thread, as `room().has_thread()` does.
    /// Strategies call this before each task that may block, so implement it if there is a cheaper
    /// way.
    fn has_thread(&self) -> bool {
        self.free_threads().has_thread()
    }

    /// Returns a counter that grows each time a thread of the executor finishes its task. If it
    /// grows fast, a monitor knows that the threads are busy but not blocked, and that one will be
    /// free soon. The default is zero.
    fn finished_jobs(&self) -> u64 {
        0
    }

    /// Returns the number of tasks that wait for a thread at this moment. The default is zero.
    fn waiting(&self) -> usize {
        0
    }
}
