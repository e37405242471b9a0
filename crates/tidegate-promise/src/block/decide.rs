//! Deciding the outcome: the step from open to done, and what the deciding thread found.

use tidegate_core::prim::Ordering;

use super::bell::Bell;
use super::state::{DONE, INLINE, LISTENER, NOTIFYING, OWNERS, WRITER};
use super::storage::BlockPtr;

/// What a thread that decided an outcome has to see to.
pub(super) struct Decided {
    /// It got the right to notify.
    pub(super) notify: bool,
    /// The inline listener is among those to be told.
    pub(super) inline: bool,
    /// The state it left.
    pub(super) state: u32,
    pub(super) bell: Bell,
}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Decides the outcome if `next` finds a next state; `None` means that it was decided
    /// before. Answers whether listeners wait to be told and this thread must see to it.
    ///
    /// On the pointer, not on a reference: another owner may free the block as soon as the
    /// state has changed.
    #[inline(always)]
    pub(super) fn decide(self, next: impl Fn(u32) -> Option<u32>) -> Option<Decided> {
        let word = &self.get().state;
        let bell = self.get().bell.clone();
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
                        bell,
                    });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Decides the outcome for a unique writer that is the only owner left, which is the case
    /// when the read end was given up with its listener: nobody else can change the state, so a
    /// plain store will do. `None` if there is another owner; it must then be done by [`decide`].
    ///
    /// [`decide`]: Self::decide
    #[inline(always)]
    pub(super) fn decide_alone(self, leave: u32) -> Option<Decided> {
        let word = &self.get().state;
        // ORDERING: Acquire pairs with the Release by which the read end announced its listener
        // and left.
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
            bell: self.get().bell.clone(),
        })
    }
}
