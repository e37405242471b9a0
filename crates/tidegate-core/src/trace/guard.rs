//! How a subscriber is called: contained, and not from within itself.
//!
//! A subscriber may use this library in any of its methods: submit a task, call a command. That work
//! reports nothing to a subscriber. Otherwise a subscriber that calls a command for each new span
//! would be asked for another span by that call, without end.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::contain::contain;

thread_local! {
    /// `true` if this library does not call a subscriber on this thread.
    static MUTED: Cell<bool> = const { Cell::new(false) };
}

/// The time in which this thread reports nothing to a subscriber. Events are counted as left out.
#[must_use = "the thread reports again when this is dropped"]
#[derive(Debug)]
pub struct Muted {
    before: bool,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Keeps the subscriber from being called on this thread until the result is dropped.
///
/// For threads that must run no user code, and for code that holds a lock.
pub fn mute() -> Muted {
    Muted {
        before: MUTED.replace(true),
        thread: PhantomData,
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        MUTED.set(self.before);
    }
}

/// Returns `true` if this thread reports nothing.
pub(super) fn is_muted() -> bool {
    MUTED.get()
}

/// Calls a subscriber. Returns `None` if it panics, or if this thread reports nothing.
pub(super) fn ask<R>(call: impl FnOnce() -> R) -> Option<R> {
    if is_muted() {
        return None;
    }
    let _muted = mute();
    contain(call).ok()
}

/// Calls a subscriber about the end of something that it knows, even if this thread reports nothing.
pub(super) fn tell_end(call: impl FnOnce()) {
    let _muted = mute();
    let _ = contain(call);
}

#[cfg(test)]
mod tests {
    //! What is called on a thread that reports nothing.

    use super::*;

    #[test]
    fn a_muted_thread_asks_nothing_until_the_last_guard_is_dropped() {
        assert_eq!(ask(|| 1), Some(1));
        let outer = mute();
        let inner = mute();
        assert_eq!(ask(|| 1), None);
        drop(inner);
        assert_eq!(ask(|| 1), None);
        drop(outer);
        assert_eq!(ask(|| 1), Some(1));
    }

    #[test]
    fn a_call_within_a_call_is_not_made_and_an_end_is() {
        let mut ends = 0;
        let nested = ask(|| {
            tell_end(|| ends += 1);
            ask(|| 1)
        });
        assert_eq!((nested, ends), (Some(None), 1));
        assert_eq!(ask(|| -> u32 { panic!("on purpose") }), None);
        assert_eq!(ask(|| 1), Some(1), "a panic ends the call");
    }
}
