//! A short, limited attempt to take a lock for a dump.

use crate::sys::prim::{spin_loop, yield_now};

/// The maximum number of attempts.
const ATTEMPTS: u32 = 200;
/// The number of attempts after which the thread yields its CPU before each further one.
const SPINS: u32 = 100;

/// Calls `attempt` until it returns a value, a limited number of times. For a lock that is usually
/// held for less than a microsecond, but that user code may hold for long: a dump must not wait for
/// it.
pub fn try_briefly<R>(mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
    for tried in 0..ATTEMPTS {
        if let Some(result) = attempt() {
            return Some(result);
        }
        if tried < SPINS {
            spin_loop();
        } else {
            yield_now();
        }
    }
    None
}
