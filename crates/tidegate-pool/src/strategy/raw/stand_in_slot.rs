//! The stand-in slot: holds a thread that is reserved for one producer, in case its task blocks.
//!
//! A producer is lent (see [`ProducerCell`](crate::strategy::raw::ProducerCell)) only while its
//! strategy has a thread here: one that exists, waits, and is reserved for no other strategy. The
//! monitor takes it when a loan is stuck. If the task has ended before the thread arrives, the
//! thread puts itself back for the next loan.
//!
//! # Ordering
//!
//! `is_ready` is a snapshot: the thread may be on its way to a loan that has ended. It then comes
//! back, and a monitor that finds no thread meanwhile checks again. Only the last scan of a monitor
//! that stops is not repeated. So a thread that puts itself back checks afterwards whether the
//! monitor has stopped. The lock orders its `put` and the last `take`, and the second of the two
//! sees the first.

use std::fmt;

use tidegate_core::internal::prim::{
    AtomicBool, ModelMutex as Mutex, ModelMutexGuard as MutexGuard, Ordering,
};

/// Holds the thread that is reserved for one strategy; see the module.
///
/// ```
/// use tidegate_pool::internal::StandInSlot;
///
/// let stand_in_slot = StandInSlot::new();
/// assert!(!stand_in_slot.is_ready());
/// assert_eq!(stand_in_slot.put("a thread"), Ok(()));
/// assert_eq!(stand_in_slot.put("another"), Err("another"), "one is enough");
/// assert!(stand_in_slot.is_ready());
/// assert_eq!(stand_in_slot.take(), Some("a thread"));
/// assert_eq!(stand_in_slot.take(), None);
/// ```
pub struct StandInSlot<T> {
    ready: AtomicBool,
    thread: Mutex<Option<T>>,
}

impl<T> StandInSlot<T> {
    /// Creates an empty slot.
    pub fn new() -> Self {
        Self {
            ready: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    /// Returns `true` if a thread is reserved; a snapshot, without the lock.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns `true` if a thread is reserved; sees everything that happened before this call.
    pub fn is_surely_ready(&self) -> bool {
        self.lock().is_some()
    }

    /// Reserves a thread.
    ///
    /// # Errors
    ///
    /// Returns the thread if one is reserved already.
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

impl<T> Default for StandInSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for StandInSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandInSlot")
            .field("ready", &self.is_ready())
            .finish_non_exhaustive()
    }
}
