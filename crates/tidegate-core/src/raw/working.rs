//! The tasks with a promise that a thread runs: their outcomes cannot come while it waits.

use std::cell::Cell;
use std::ptr;

use crate::CaughtPanic;
use crate::contain::contain;
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

/// Runs a task whose promise is at the address `promise`, and contains its panic. The promise must
/// stay there until `run` has ended.
///
/// # Errors
///
/// The panic.
#[inline(always)]
pub fn run_task_of_promise<R>(promise: usize, run: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
    INNERMOST.with(|innermost| {
        let outer = innermost.get();
        let frame = Frame { promise, outer };
        innermost.set(&raw const frame);
        let ended = contain(run);
        innermost.set(outer);
        ended
    })
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
