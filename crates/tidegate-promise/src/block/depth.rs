//! How deep this thread is in code of the user's, and what waits until the outermost returns.
//!
//! A listener may complete another promise, whose listener may complete a third: inline, that
//! is one stack frame more each time. Beyond a limit the next one is queued instead, and runs
//! when the outermost has returned. The limit and the queue are the thread's, shared by all
//! promises, and hooks count like listeners.
//!
//! Only the outermost empties the queue: what runs from the queue adds to the same queue, so the
//! stack does not grow with its length.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_core::{CaughtPanic, Executor, OnUnhandled, Signal, Task, Unhandled};

/// The most listeners inside listeners that one thread runs before it queues the rest.
const MAX_DEPTH: u32 = 8;
/// Lowers [`MAX_DEPTH`].
const DEPTH_VARIABLE: &str = "TIDEGATE_MAX_LISTENER_DEPTH";

#[cfg(not(tidegate_loom))]
tidegate_core::prim::thread_local! {
    static DEPTH: Cell<Depth> = const { Cell::new(Depth::OUTSIDE) };
    /// The innermost block whose listener runs on this thread, on its stack.
    static TELLING: Cell<*const Telling> = const { Cell::new(ptr::null()) };
    /// Whether anything was ever put off and not run yet: spares the common case the queue.
    static WAITING: Cell<bool> = const { Cell::new(false) };
    /// What runs when the outermost of them has returned.
    static DEFERRED: RefCell<VecDeque<Deferred>> = const { RefCell::new(VecDeque::new()) };
}

// Loom runs its threads on one real thread, and its macro knows no constants.
#[cfg(tidegate_loom)]
loom::thread_local! {
    static DEPTH: Cell<Depth> = Cell::new(Depth::OUTSIDE);
    static TELLING: Cell<*const Telling> = Cell::new(ptr::null());
    static WAITING: Cell<bool> = Cell::new(false);
    static DEFERRED: RefCell<VecDeque<Deferred>> = RefCell::new(VecDeque::new());
}

/// How deep a thread is.
#[derive(Clone, Copy)]
struct Depth {
    /// Listeners and hooks inside each other, counted anew for each that comes from the queue.
    level: u32,
    /// The queue is being emptied, further out.
    emptying: bool,
}

/// A block whose listener this thread is in.
struct Telling {
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
    /// A block whose listeners are to be told here.
    Block(Signal),
    /// A hook of a cancelled block, and who hears of its panic.
    Hook(Box<Task>, Option<Arc<dyn Executor>>),
}

impl Deferred {
    fn run(self) {
        match self {
            Self::Block(signal) => signal.deliver(),
            Self::Hook(hook, home) => deeper(0, home.as_deref(), || hook.run()),
        }
    }
}

/// Whether no further listener or hook may run inside the present one.
#[inline]
pub(super) fn is_full() -> bool {
    DEPTH.with(Cell::get).level >= max_depth()
}

/// Whether this thread is in a listener of the block at `block`, or has put off telling it until
/// the listener that it is in returns: the block cannot settle before that.
pub(super) fn is_told_here(block: usize) -> bool {
    let mut telling = TELLING.with(Cell::get);
    // SAFETY: what `deeper` notes lies on this thread's stack, further out, and is noted no longer
    // when it returns.
    while let Some(one) = unsafe { telling.as_ref() } {
        if one.block == block {
            return true;
        }
        telling = one.outer;
    }
    let is_it = |what: &Deferred| matches!(what, Deferred::Block(one) if one.addr() == block);
    DEFERRED
        .try_with(|queue| queue.borrow().iter().any(is_it))
        .unwrap_or(false)
}

/// Runs code of the user's, contained, one level deeper; the outermost then empties the queue.
/// `block` is the one whose listener it is, or 0. Nothing unwinds out of it, so the depth is put
/// back without a guard.
#[inline(always)]
pub(super) fn deeper(block: usize, home: Option<&dyn Executor>, run: impl FnOnce()) {
    let before = DEPTH.with(Cell::get);
    set(Depth {
        level: before.level + 1,
        emptying: before.emptying,
    });
    let telling = Telling {
        block,
        outer: TELLING.with(Cell::get),
    };
    TELLING.with(|innermost| innermost.set(&raw const telling));
    contain(home, run);
    TELLING.with(|innermost| innermost.set(telling.outer));
    if before.level == 0 && !before.emptying && WAITING.with(Cell::get) {
        set(Depth {
            level: 0,
            emptying: true,
        });
        run_deferred();
    }
    set(before);
}

/// Tells a block's listeners when the outermost listener has returned.
pub(super) fn defer(block: Signal) {
    put_off(Deferred::Block(block));
}

/// Runs the hook of a cancelled block: now, or when the outermost listener has returned.
pub(super) fn run_hook(home: Option<&Arc<dyn Executor>>, hook: Box<Task>) {
    if is_full() {
        put_off(Deferred::Hook(hook, home.cloned()));
    } else {
        deeper(0, home.map(|home| &**home), || hook.run());
    }
}

/// Runs code of the user's; a panic in it is reported to `home` and goes no further.
#[inline]
pub(super) fn contain(home: Option<&dyn Executor>, run: impl FnOnce()) {
    if let Err(panic) = tidegate_core::contain(run) {
        report(home, panic);
    }
}

#[cold]
fn report(home: Option<&dyn Executor>, panic: CaughtPanic) {
    tell_home(
        home,
        &Unhandled::ListenerPanic {
            message: panic.message(),
        },
    );
    drop(panic);
}

/// Reports to `home`; a panic in its hook must not cost other listeners their turn.
#[cold]
pub(super) fn tell_home(home: Option<&dyn Executor>, what: &Unhandled<'_>) {
    let Some(home) = home else {
        return OnUnhandled::stderr().tell("a promise without a home", what);
    };
    let _ = tidegate_core::contain(|| home.unhandled(what));
}

fn put_off(what: Deferred) {
    let mut what = Some(what);
    WAITING.with(|waiting| waiting.set(true));
    let queued = DEFERRED.try_with(|queue| queue.borrow_mut().extend(what.take()));
    // The thread is ending and its queue is gone: now or never.
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

/// The limit, read from the environment once; 0 until then.
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
    let asked = std::env::var(DEPTH_VARIABLE).ok();
    let asked = asked.and_then(|depth| depth.parse().ok());
    let limit = asked.map_or(MAX_DEPTH, |depth: u32| depth.clamp(1, MAX_DEPTH));
    LIMIT.store(limit, Ordering::Relaxed);
    limit
}
