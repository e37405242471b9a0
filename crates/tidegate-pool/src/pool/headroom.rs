//! How much more work an executor can take: what a strategy asks before it gives a thread away.

/// How much more work an executor can take at this moment.
///
/// The figures are a snapshot: another thread may take the last place before the reader acts.
/// They decide between two correct ways (give a thread away or keep it), never whether a task
/// is accepted.
///
/// ```
/// use tidegate_pool::Room;
///
/// let full = Room { idle: 0, may_start: 0, places: 3 };
/// assert!(!full.has_thread());
/// assert!(Room { may_start: 1, ..full }.has_thread());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Threads that wait for work and have none promised to them.
    pub idle: usize,
    /// Threads that may still be started, for tasks of the runtime's own in any case. A pool that
    /// [queues first](crate::Growth::QueueFirst) starts those beyond its core for other tasks only
    /// when its queue is full.
    pub may_start: usize,
    /// Tasks that the queue takes before it refuses.
    pub places: usize,
}

impl Room {
    /// Whether a task given now would find a thread, idle or to be started.
    pub fn has_thread(self) -> bool {
        self.idle > 0 || self.may_start > 0
    }
}

/// An executor that can say how much room it has.
pub trait Headroom {
    /// The room at this moment. Takes no lock and never waits.
    fn room(&self) -> Room;

    /// Whether a task given now would find a thread: `room().has_thread()`, which strategies ask
    /// before each task that may block, so an executor that knows it cheaper says so.
    fn has_thread(&self) -> bool {
        self.room().has_thread()
    }

    /// A number that grows each time one of its threads is done with what it ran. A monitor
    /// that sees it grow fast knows that the threads are busy, but not held: the next of them to
    /// come free comes soon. An executor that cannot say leaves it at zero.
    fn moves(&self) -> u64 {
        0
    }

    /// Tasks that wait for a thread at this moment. An executor that cannot say leaves it at zero.
    fn waiting(&self) -> usize {
        0
    }
}
