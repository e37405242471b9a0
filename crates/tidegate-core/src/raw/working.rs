//! The tasks with a promise that a thread runs: their outcomes cannot come while it waits.

use std::cell::Cell;
use std::ptr;

use crate::sys::prim;

prim::thread_local! {
    /// The innermost task of this thread. Points to the stack.
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// A task that runs on this thread.
struct Frame {
    /// The address of its promise.
    promise: usize,
    outer: *const Self,
}

/// Runs a task whose promise is at the address `promise`. The promise must stay there until `run`
/// returns.
#[inline(always)]
pub fn run_task_of_promise<R>(promise: usize, run: impl FnOnce() -> R) -> R {
    struct Restore(*const Frame);
    impl Drop for Restore {
        fn drop(&mut self) {
            INNERMOST.with(|innermost| innermost.set(self.0));
        }
    }
    let outer = INNERMOST.with(Cell::get);
    let frame = Frame { promise, outer };
    INNERMOST.with(|innermost| innermost.set(&raw const frame));
    let _restore = Restore(outer);
    run()
}

/// Returns the addresses of the promises of the tasks that the calling thread runs.
pub(crate) fn running_promises() -> Vec<usize> {
    let mut promises = Vec::new();
    let mut at = INNERMOST.with(Cell::get);
    // SAFETY: the frames lie in outer frames of this thread's stack, and each is unlinked before
    // its function returns.
    while let Some(frame) = unsafe { at.as_ref() } {
        promises.push(frame.promise);
        at = frame.outer;
    }
    promises
}
