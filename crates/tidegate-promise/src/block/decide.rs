//! The transition of a block from open to done.

use tidegate_core::internal::prim::Ordering;

use super::state::{DONE, INLINE, LISTENER, NOTIFYING, OWNERS, WRITER};
use super::storage::BlockPtr;
use super::word_waiters::WordWaiters;

/// What the thread that decided an outcome must do next.
pub(super) struct Decided {
    /// The thread acquired the right to notify.
    pub(super) notify: bool,
    /// The inline slot holds a listener to be notified.
    pub(super) inline: bool,
    /// The state after the decision.
    pub(super) state: u32,
    pub(super) word_waiters: WordWaiters,
}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Decides the outcome if `next` returns a next state. Returns `None` if the outcome was
    /// already decided. [`Decided::notify`] says whether this thread must notify listeners.
    ///
    /// Takes the pointer rather than a reference, because another owner may free the block as soon
    /// as the state has changed.
    #[inline(always)]
    pub(super) fn decide(self, next: impl Fn(u32) -> Option<u32>) -> Option<Decided> {
        let word = &self.get().state;
        let word_waiters = self.get().word_waiters.clone();
        let mut state = word.load(Ordering::Relaxed);
        loop {
            let mut next = next(state)?;
            let notify = state & LISTENER != 0 && state & NOTIFYING == 0;
            if notify {
                next = (next | NOTIFYING) & !(LISTENER | INLINE);
            }
            // ORDERING: AcqRel. Release publishes the outcome to every Acquire load of `DONE`;
            // Acquire pairs with the Release by which listeners were added.
            match word.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Decided {
                        notify,
                        inline: notify && state & INLINE != 0,
                        state: next,
                        word_waiters,
                    });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Decides the outcome for a unique writer that is the only owner, as it is when adding the
    /// listener also consumed the read end. No other thread can change the state then, so a plain
    /// store suffices. Returns `None` if there is another owner; the caller must then use
    /// [`decide`].
    ///
    /// [`decide`]: Self::decide
    #[inline(always)]
    pub(super) fn decide_alone(self, leave: u32) -> Option<Decided> {
        let word = &self.get().state;
        // ORDERING: Acquire pairs with the Release by which the read end announced its listener
        // and cleared its owner bit.
        let state = word.load(Ordering::Acquire);
        if state & (OWNERS | DONE) != WRITER {
            return None;
        }
        let notify = state & LISTENER != 0;
        let mut next = (state | DONE) & !leave;
        if notify {
            next = (next | NOTIFYING) & !(LISTENER | INLINE);
        }
        word.store(next, Ordering::Relaxed);
        Some(Decided {
            notify,
            inline: state & INLINE != 0,
            state: next,
            word_waiters: self.get().word_waiters.clone(),
        })
    }
}
