//! Tells deferred responses that their connection takes them no more, before it is closed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the first response that a connection takes no more. Responses have an order, so
/// that one number stands for all that were given up.
#[derive(Clone, Debug)]
pub(crate) struct Cutoff(Arc<AtomicU64>);

/// How many connections of a thread become idle and busy again at once, usually.
const KEPT: usize = 128;

thread_local! {
    /// Numbers that nothing uses, for the next connections of this thread.
    static SPARE: RefCell<Vec<Arc<AtomicU64>>> = const { RefCell::new(Vec::new()) };
}

impl Default for Cutoff {
    fn default() -> Self {
        let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
        let spare = spare.ok().flatten();
        Self(spare.unwrap_or_else(|| Arc::new(AtomicU64::new(u64::MAX))))
    }
}

impl Cutoff {
    /// Lets go of the number. It serves for another connection if no response has it.
    pub(crate) fn let_go(mut self) {
        let Some(number) = Arc::get_mut(&mut self.0) else {
            return;
        };
        *number.get_mut() = u64::MAX;
        let _ = SPARE.try_with(|spare| {
            if let Ok(mut spare) = spare.try_borrow_mut()
                && spare.len() < KEPT
            {
                spare.push(self.0);
            }
        });
    }

    /// Gives up the response `seq` and all behind it.
    pub(crate) fn give_up_from(&self, seq: u64) {
        self.0.fetch_min(seq, Ordering::Relaxed);
    }

    /// Returns `true` if the response `seq` is given up.
    pub(crate) fn has_passed(&self, seq: u64) -> bool {
        seq >= self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    //! Numbers that serve again.

    use super::*;

    #[test]
    fn a_number_serves_again_unless_a_response_has_it() {
        let first = Cutoff::default();
        let of_response = first.clone();
        first.give_up_from(3);
        first.let_go();
        assert!(of_response.has_passed(3));
        let second = Cutoff::default();
        assert!(!Arc::ptr_eq(&second.0, &of_response.0));
        let place = Arc::as_ptr(&second.0);
        second.give_up_from(0);
        second.let_go();
        let third = Cutoff::default();
        assert_eq!(Arc::as_ptr(&third.0), place);
        assert!(!third.has_passed(u64::MAX - 1));
    }
}
