//! Floor: a mutex and a condition variable, the bare mechanism of a blocking wait.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::contest::WaitContestant;

/// The panic message for a poisoned lock; it does not happen here.
const CALM: &str = "nothing panics while it holds this lock";

/// A slot for one value, on which a thread waits.
#[derive(Default)]
pub(crate) struct Slot {
    value: Mutex<Option<Instant>>,
    filled: Condvar,
}

/// A wait on the condition variable of a [`Slot`].
pub(crate) struct MutexCondvar;

impl WaitContestant for MutexCondvar {
    type Completer = Arc<Slot>;
    type Waiter = Arc<Slot>;

    fn pair() -> (Self::Completer, Self::Waiter) {
        let slot = Arc::new(Slot::default());
        (Arc::clone(&slot), slot)
    }

    fn complete(completer: Self::Completer, stamp: Instant) {
        *completer.value.lock().expect(CALM) = Some(stamp);
        completer.filled.notify_one();
    }

    fn wait(waiter: Self::Waiter) -> Instant {
        let value = waiter.value.lock().expect(CALM);
        let value = waiter.filled.wait_while(value, |value| value.is_none());
        value.expect(CALM).expect("the wait ends when it is filled")
    }
}
