//! The standby: a thread that is reserved for one producer, should its task block.
//!
//! A producer is lent (see [`ProducerCell`](crate::strategy::raw::ProducerCell)) only while its strategy has a
//! thread here: one that exists, waits, and is counted for nobody else. The monitor takes it when a
//! loan is stuck. A thread that comes too late, since the task has ended meanwhile, puts itself
//! back, and the next loan has it again.
//!
//! # Ordering
//!
//! `is_ready` is a look: the thread may be on its way to a loan that is over. It then comes
//! back, and a monitor that finds none meanwhile looks again. The one look that nobody repeats is
//! the last one of a monitor that stops. So a thread that puts itself back looks afterwards
//! whether the monitor has stopped: the lock orders its `put` and the last `take`, and the second
//! of the two sees the first.

use std::fmt;

use tidegate_core::prim::{
    AtomicBool, ModelMutex as Mutex, ModelMutexGuard as MutexGuard, Ordering,
};

/// Keeps the thread that one strategy has in reserve; see the module.
///
/// ```
/// use tidegate_pool::internal::Standby;
///
/// let standby = Standby::new();
/// assert!(!standby.is_ready());
/// assert_eq!(standby.put("a thread"), Ok(()));
/// assert_eq!(standby.put("another"), Err("another"), "one is enough");
/// assert!(standby.is_ready());
/// assert_eq!(standby.take(), Some("a thread"));
/// assert_eq!(standby.take(), None);
/// ```
pub struct Standby<T> {
    ready: AtomicBool,
    thread: Mutex<Option<T>>,
}

impl<T> Standby<T> {
    /// A strategy without a thread in reserve.
    pub fn new() -> Self {
        Self {
            ready: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    /// Returns `true` if a thread is reserved. A look, without the lock.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns `true` if a thread is reserved, as of all that happened before this call.
    pub fn is_surely_ready(&self) -> bool {
        self.lock().is_some()
    }

    /// Reserves a thread.
    ///
    /// # Errors
    ///
    /// The thread, when one is reserved already.
    pub fn put(&self, thread: T) -> Result<(), T> {
        let mut slot = self.lock();
        if slot.is_some() {
            return Err(thread);
        }
        *slot = Some(thread);
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the reserved thread.
    pub fn take(&self) -> Option<T> {
        let mut slot = self.lock();
        self.ready.store(false, Ordering::Relaxed);
        slot.take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Default for Standby<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Standby<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standby")
            .field("ready", &self.is_ready())
            .finish_non_exhaustive()
    }
}
