//! The event loops of a group that get new work: all, unless the group scales.
//!
//! A list that one thread, the monitor of the group, rewrites in place while other threads read it.
//! Every entry is at any time the index of an event loop of the group. A reader that meets a change
//! may therefore choose an event loop that has just been given up, as it may right before the
//! change; that one starts again.

use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicUsize, Ordering};

/// The indices of the active event loops. Clones share one list.
#[derive(Clone, Debug)]
pub(crate) struct ActiveLoops {
    list: Arc<List>,
}

#[derive(Debug)]
struct List {
    len: AtomicUsize,
    /// One entry for each event loop; the first `len` count.
    entries: Box<[AtomicUsize]>,
}

impl ActiveLoops {
    /// Creates the list of a group in which all `count` event loops are active.
    pub(super) fn all(count: usize) -> Self {
        Self {
            list: Arc::new(List {
                len: AtomicUsize::new(count),
                entries: (0..count).map(AtomicUsize::new).collect(),
            }),
        }
    }

    /// Replaces the list. Called only by the monitor.
    pub(super) fn set(&self, active: &[usize]) {
        // Relaxed: an index says nothing about the state of the event loop, which is built before
        // the list and stays until the group is dropped.
        for (entry, &index) in self.list.entries.iter().zip(active) {
            entry.store(index, Ordering::Relaxed);
        }
        self.list.len.store(active.len(), Ordering::Relaxed);
    }

    /// Returns how many event loops are active.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.list.len.load(Ordering::Relaxed)
    }

    /// Returns the index of the active event loop number `at`.
    #[inline]
    pub(super) fn get(&self, at: usize) -> usize {
        self.list.entries[at].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    //! A list shrinks and grows in place.

    use super::ActiveLoops;

    fn indices(active: &ActiveLoops) -> Vec<usize> {
        (0..active.len()).map(|at| active.get(at)).collect()
    }

    #[test]
    fn clones_see_a_list_that_shrinks_and_grows() {
        let active = ActiveLoops::all(4);
        let seen = active.clone();
        assert_eq!(indices(&seen), [0, 1, 2, 3]);
        active.set(&[1, 3]);
        assert_eq!(indices(&seen), [1, 3]);
        active.set(&[]);
        assert_eq!(indices(&seen), [0; 0]);
        active.set(&[0, 2, 3]);
        assert_eq!(indices(&seen), [0, 2, 3]);
    }
}
