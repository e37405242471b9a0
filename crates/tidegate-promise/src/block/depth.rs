//! The nesting depth of user code on this thread, and the queue of what runs after the outermost
//! listener.
//!
//! A listener may complete another promise, whose listener may complete a third. Run in place,
//! each adds a stack frame. Beyond a limit the next notification is queued instead, and runs when
//! the outermost listener has returned. Limit and queue are per thread and shared by all promises,
//! and hooks count like listeners.
//!
//! Only the outermost listener drains the queue, and a thread that is about to block. User code that
//! runs from the queue adds to the same queue, so the stack does not grow with the queue's length.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_core::executor::Signal;
use tidegate_core::{CaughtPanic, Executor, OnUnhandled, Task, Unhandled};

/// The maximum nesting depth of listeners on one thread. Deeper ones are queued.
const MAX_DEPTH: u32 = 8;
/// The environment variable that lowers the limit. Its value is clamped to `1..=MAX_DEPTH`.
const DEPTH_VARIABLE: &str = "TIDEGATE_MAX_LISTENER_DEPTH";

#[cfg(not(tidegate_loom))]
tidegate_core::internal::prim::thread_local! {
    static DEPTH: Cell<Depth> = const { Cell::new(Depth::OUTSIDE) };
    /// The innermost listener that runs on this thread. Points to the stack.
    static NOTIFYING_ON: Cell<*const ActiveListener> = const { Cell::new(ptr::null()) };
    /// `true` if the queue may contain entries, so that the common case does not look into it.
    static WAITING: Cell<bool> = const { Cell::new(false) };
    /// What runs when the outermost listener has returned.
    static DEFERRED: RefCell<VecDeque<Deferred>> = const { RefCell::new(VecDeque::new()) };
}

// Loom runs its threads on one real thread, and its macro does not support `const`.
#[cfg(tidegate_loom)]
loom::thread_local! {
    static DEPTH: Cell<Depth> = Cell::new(Depth::OUTSIDE);
    static NOTIFYING_ON: Cell<*const ActiveListener> = Cell::new(ptr::null());
    static WAITING: Cell<bool> = Cell::new(false);
    static DEFERRED: RefCell<VecDeque<Deferred>> = RefCell::new(VecDeque::new());
}

/// The nesting depth of a thread.
#[derive(Clone, Copy)]
struct Depth {
    /// The number of nested listeners and hooks. Starts at 0 again for each entry of the queue.
    level: u32,
    /// An outer frame is draining the queue.
    emptying: bool,
}

/// A block whose listener runs on this thread.
struct ActiveListener {
    block: usize,
    outer: *const Self,
}

impl Depth {
    const OUTSIDE: Self = Self {
        level: 0,
        emptying: false,
    };
}

#[inline]
fn set(depth: Depth) {
    DEPTH.with(|now| now.set(depth));
}

enum Deferred {
    /// A block whose listeners run on this thread.
    Block(Signal),
    /// The hook of a cancelled block, and the executor to which its panic is reported.
    Hook(Box<Task>, Option<Arc<dyn Executor>>),
}

impl Deferred {
    fn run(self) {
        match self {
            Self::Block(signal) => signal.deliver(),
            Self::Hook(hook, home) => run_nested(0, home.as_deref(), || hook.run()),
        }
    }
}

/// Returns `true` if no further listener or hook may be nested on this thread.
#[inline]
pub(super) fn is_full() -> bool {
    DEPTH.with(Cell::get).level >= max_depth()
}

/// Returns `true` if this thread runs a listener of the block at address `block`, or has queued the
/// block's notification. The queue is drained after the outermost listener, so the block cannot
/// settle while the current listener runs.
pub(super) fn is_notifying_on_this_thread(block: usize) -> bool {
    let mut active = NOTIFYING_ON.with(Cell::get);
    // SAFETY: the entries that `run_nested` links lie in outer frames of this thread's stack, and
    // `run_nested` unlinks its entry before it returns.
    while let Some(one) = unsafe { active.as_ref() } {
        if one.block == block {
            return true;
        }
        active = one.outer;
    }
    let is_it = |what: &Deferred| matches!(what, Deferred::Block(one) if one.addr() == block);
    DEFERRED
        .try_with(|queue| queue.borrow().iter().any(is_it))
        .unwrap_or(false)
}

/// Runs user code, contained, one level deeper. The outermost call then drains the queue. `block`
/// is the address of the block whose listener runs, or 0 for a hook. A panic is reported to `home`.
/// Nothing unwinds out of `contain`, so the depth is restored without a guard.
#[inline(always)]
pub(super) fn run_nested(block: usize, home: Option<&dyn Executor>, run: impl FnOnce()) {
    let before = DEPTH.with(Cell::get);
    set(Depth {
        level: before.level + 1,
        emptying: before.emptying,
    });
    let active = ActiveListener {
        block,
        outer: NOTIFYING_ON.with(Cell::get),
    };
    NOTIFYING_ON.with(|innermost| innermost.set(&raw const active));
    contain(home, run);
    NOTIFYING_ON.with(|innermost| innermost.set(active.outer));
    if before.level == 0 && !before.emptying && WAITING.with(Cell::get) {
        set(Depth {
            level: 0,
            emptying: true,
        });
        run_deferred();
    }
    set(before);
}

/// Runs what was put off on this thread, which is about to block: the outermost listener cannot
/// return before.
#[inline]
pub(crate) fn run_put_off() {
    if WAITING.with(Cell::get) {
        let emptying = Depth {
            level: 0,
            emptying: true,
        };
        run_at(emptying, run_deferred);
    }
}

/// Runs code that drives futures on this thread until they are ready, maybe inside a listener.
/// First runs what was put off. Listeners nest from the start again meanwhile.
pub fn as_outermost<R>(run: impl FnOnce() -> R) -> R {
    run_put_off();
    run_at(Depth::OUTSIDE, run)
}

fn run_at<R>(depth: Depth, run: impl FnOnce() -> R) -> R {
    struct Restore(Depth);
    impl Drop for Restore {
        fn drop(&mut self) {
            set(self.0);
        }
    }
    let _restore = Restore(DEPTH.with(Cell::get));
    set(depth);
    run()
}

/// Defers the notification of a block until the outermost listener has returned.
pub(super) fn defer(block: Signal) {
    enqueue_deferred(Deferred::Block(block));
}

/// Runs the hook of a cancelled block, at once or after the outermost listener has returned.
pub(super) fn run_hook(home: Option<&Arc<dyn Executor>>, hook: Box<Task>) {
    if is_full() {
        enqueue_deferred(Deferred::Hook(hook, home.cloned()));
    } else {
        run_nested(0, home.map(|home| &**home), || hook.run());
    }
}

/// Runs user code. A panic in it is reported to `home` and contained.
#[inline]
pub(super) fn contain(home: Option<&dyn Executor>, run: impl FnOnce()) {
    if let Err(panic) = tidegate_core::internal::contain(run) {
        report(home, panic);
    }
}

#[cold]
fn report(home: Option<&dyn Executor>, panic: CaughtPanic) {
    report_to_home(
        home,
        &Unhandled::ListenerPanic {
            message: panic.message(),
        },
    );
    drop(panic);
}

/// Reports to `home`. A panic in its handler is contained, so that other listeners still run.
#[cold]
pub(super) fn report_to_home(home: Option<&dyn Executor>, what: &Unhandled<'_>) {
    let Some(home) = home else {
        return OnUnhandled::default().report("a promise without a home", what);
    };
    let _ = tidegate_core::internal::contain(|| home.unhandled(what));
}

fn enqueue_deferred(what: Deferred) {
    let mut what = Some(what);
    WAITING.with(|waiting| waiting.set(true));
    let queued = DEFERRED.try_with(|queue| queue.borrow_mut().extend(what.take()));
    // The thread is exiting and its queue is destroyed, so run the entry at once.
    if let (Err(_), Some(what)) = (queued, what) {
        what.run();
    }
}

#[cold]
fn run_deferred() {
    let next = || DEFERRED.try_with(|queue| queue.borrow_mut().pop_front());
    while let Ok(Some(what)) = next() {
        what.run();
    }
    WAITING.with(|waiting| waiting.set(false));
}

/// The limit, read from the environment once. 0 until then.
static LIMIT: AtomicU32 = AtomicU32::new(0);

#[inline]
fn max_depth() -> u32 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => read_limit(),
        limit => limit,
    }
}

#[cold]
fn read_limit() -> u32 {
    let setting = std::env::var(DEPTH_VARIABLE).ok();
    let setting = setting.and_then(|depth| depth.parse().ok());
    let limit = setting.map_or(MAX_DEPTH, |depth: u32| depth.clamp(1, MAX_DEPTH));
    LIMIT.store(limit, Ordering::Relaxed);
    limit
}
