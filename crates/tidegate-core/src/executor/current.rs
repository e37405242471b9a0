//! The current thread's role: which executor's work it runs, and whether it may block.
//!
//! Code that runs an executor's work on a thread calls [`enter`]. Dropping the returned guard
//! restores the previous values, so that drivers can nest. "Is this my thread?" is one thread-local
//! load and a compare.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

use super::id::ExecutorId;
use super::traits::Executor;
use crate::raw::vtable::Blocking;
use crate::sys::prim;

prim::thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    static POLICY: Cell<WaitPolicy> = const { Cell::new(WaitPolicy::Free) };
    /// The executors whose work this thread runs, innermost last.
    static EXECUTORS: RefCell<Vec<Arc<dyn Executor>>> = const { RefCell::new(Vec::new()) };
}

/// The wait policy of a thread: whether it may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// The thread may block: a plain, worker or bulkhead thread, or a loop's thread inside
    /// [`Blocking::allow`].
    Free,
    /// The thread must not block: it drives a pinned loop.
    Loop,
    /// The thread must not block: it was tagged by [`Blocking::forbid`].
    Tagged,
}

/// Returns `true` if the calling thread runs work of the executor `id`.
#[inline(always)]
pub fn is_current(id: ExecutorId) -> bool {
    CURRENT.with(Cell::get) == id.get()
}

/// Returns the executor whose work the calling thread runs.
pub fn current_executor() -> Option<Arc<dyn Executor>> {
    let innermost = EXECUTORS.try_with(|all| all.borrow().last().cloned());
    innermost.ok()?
}

/// Returns all executors whose work the calling thread runs, innermost last: a thread that runs a
/// task of an ordered view is also a thread of the pool under the view.
pub(crate) fn current_executors() -> Vec<Arc<dyn Executor>> {
    let all = EXECUTORS.try_with(|all| all.borrow().clone());
    all.unwrap_or_default()
}

/// Returns whether the calling thread may block.
pub fn wait_policy() -> WaitPolicy {
    POLICY.with(Cell::get)
}

impl Blocking {
    /// Runs `work` with blocking waits forbidden on the calling thread: waits inside `work` are
    /// refused, and tasks that adapt do not block. The previous policy is restored afterwards, also
    /// after a panic. Calls can be nested.
    ///
    /// ```
    /// use tidegate_core::Blocking;
    /// use tidegate_core::executor::{WaitPolicy, wait_policy};
    ///
    /// assert_eq!(wait_policy(), WaitPolicy::Free);
    /// Blocking::forbid(|| assert_eq!(wait_policy(), WaitPolicy::Tagged));
    /// assert_eq!(wait_policy(), WaitPolicy::Free);
    /// ```
    pub fn forbid<R>(work: impl FnOnce() -> R) -> R {
        let _restore = Restore(POLICY.replace(WaitPolicy::Tagged));
        work()
    }

    /// Runs `work` with blocking waits allowed even on a loop's thread. The loop does nothing else
    /// meanwhile. Use this only where the awaited side is known to need nothing from this loop.
    ///
    /// ```
    /// use tidegate_core::Blocking;
    /// use tidegate_core::executor::{WaitPolicy, wait_policy};
    ///
    /// Blocking::forbid(|| Blocking::allow(|| assert_eq!(wait_policy(), WaitPolicy::Free)));
    /// ```
    pub fn allow<R>(work: impl FnOnce() -> R) -> R {
        let _restore = Restore(POLICY.replace(WaitPolicy::Free));
        work()
    }
}

struct Restore(WaitPolicy);

impl Drop for Restore {
    fn drop(&mut self) {
        POLICY.set(self.0);
    }
}

/// Marks the calling thread as running `executor`'s work until the guard is dropped.
pub fn enter(executor: Arc<dyn Executor>, policy: WaitPolicy) -> CurrentGuard {
    let id = executor.id().get();
    EXECUTORS.with_borrow_mut(|all| all.push(executor));
    CurrentGuard {
        current: CURRENT.replace(id),
        policy: POLICY.replace(policy),
        _not_send: PhantomData,
    }
}

/// Guard of [`enter`]. Dropping it restores the thread's previous executor and wait policy.
#[must_use = "dropping the guard ends the entry"]
pub struct CurrentGuard {
    current: u64,
    policy: WaitPolicy,
    _not_send: PhantomData<*const ()>,
}

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        let mine = EXECUTORS.with_borrow_mut(Vec::pop);
        CURRENT.set(self.current);
        POLICY.set(self.policy);
        drop(mine);
    }
}

impl std::fmt::Debug for CurrentGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CurrentGuard").finish_non_exhaustive()
    }
}
