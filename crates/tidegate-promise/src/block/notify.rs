//! Notification: runs the listeners of a decided block on the right thread.
//!
//! The thread that holds the `NOTIFYING` bit of a block has exclusive access to its listeners. It
//! runs them in place if it is running the block's home (or the block has none) and is not nested
//! too deep in other listeners. Otherwise it sends the block itself to its home, as a signal, and
//! the signal carries the right to notify. Wakers are called in place. No lock is held while user
//! code runs.

use std::ptr::{self, NonNull};
use std::task::Waker;

use tidegate_core::Unhandled;
use tidegate_core::executor::Signal;
use tidegate_core::internal::prim::Ordering;
use tidegate_core::internal::{Delivery, SignalHeader, needs_nothing};

use super::decide::Decided;
use super::depth::{self, contain};
use super::listener::Listener;
use super::state::{
    AWAITED, DONE, INLINE, LISTENER, NOTIFYING, READER, SLEEPER, UNSTARTED, WRITER, is_settled,
};
use super::storage::{Block, BlockPtr, SWEEP_AFTER};

impl Decided {
    /// Notifies the listeners, or wakes the reader that sleeps on the block. The block may be
    /// freed already, unless this thread holds the right to notify.
    #[inline(always)]
    pub(super) fn notify<T: Send + 'static, E: Send + 'static>(&self, ptr: BlockPtr<T, E>) {
        if self.state & AWAITED != 0 {
            needs_nothing(ptr.addr());
        }
        if self.notify {
            start(ptr, self.inline);
        } else if self.state & SLEEPER != 0 && is_settled(self.state) {
            self.word_waiters.wake_one(ptr.word());
        }
    }
}

/// Starts a notification. The caller has just set `NOTIFYING`; `inline` is `true` if it saw
/// `INLINE`.
#[inline]
pub(super) fn start<T: Send, E: Send>(ptr: BlockPtr<T, E>, inline: bool) {
    if inline {
        if may_run_here(ptr.get()) && call_inline(ptr.get()) {
            if has_more(ptr.get()) || !release(ptr) {
                run_listeners(ptr, false);
            }
            return;
        }
        mark_inline_pending(ptr.get());
    }
    run_listeners(ptr, false);
}

/// Returns `true` if there were listeners after the inline one when this thread set `NOTIFYING`.
#[inline(always)]
fn has_more<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    // SAFETY: this thread holds `NOTIFYING`.
    unsafe { block.nodes.has_more() }
}

/// Calls the inline listener without setting `inline_pending` first: the common case of a single
/// listener that may run in place. Returns `false` if it is a waker, because the last waker is
/// called after the block is released.
#[inline(always)]
fn call_inline<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    let place = block.inline.with_mut(|slot| slot.cast::<Listener>());
    // SAFETY: this thread holds `NOTIFYING` and saw `INLINE` when it took it: the slot is full
    // and belongs to this thread.
    if unsafe { &*place }.is_waker() {
        return false;
    }
    depth::run_nested(ptr::from_ref(block).addr(), block.home.as_deref(), || {
        block.show(|outcome| {
            // SAFETY: as above; no thread reads the slot again, since `INLINE` is clear and
            // `inline_pending` was not set, and the block lives while `NOTIFYING` is held. The
            // listeners of a block are made for its types.
            unsafe { Listener::call_at(place, outcome) };
        });
    });
    true
}

fn mark_inline_pending<T: Send, E: Send>(block: &Block<T, E>) {
    // SAFETY: `inline_pending` belongs to the holder of `NOTIFYING`: this thread.
    block
        .inline_pending
        .with_mut(|waits| unsafe { *waits = true });
}

/// Receives a block that was sent to its home. The signal carried the right to notify.
pub(super) unsafe fn deliver<T: Send + 'static, E: Send + 'static>(
    header: NonNull<SignalHeader>,
    how: Delivery,
) {
    let ptr = BlockPtr(header.cast::<Block<T, E>>());
    if how == Delivery::Orphaned {
        depth::report_to_home(ptr.get().home.as_deref(), &Unhandled::ListenerFellBack);
    }
    // An orphaned signal is delivered inside the code that completed the promise, and an executor
    // may also deliver a signal in place. Both can be nested too deep.
    if depth::is_full() {
        return depth::defer(signal_of(ptr));
    }
    run_listeners(ptr, true);
}

/// Calls listeners until there are none left, or sends the block to its home. `arrived` means that
/// it need not be sent.
fn run_listeners<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>, arrived: bool) {
    let block = ptr.get();
    let mut last: Option<Waker> = None;
    loop {
        match next(block) {
            Next::None => {
                if release(ptr) {
                    break;
                }
            }
            Next::Waker => {
                let waker = take(block).and_then(Listener::into_waker);
                if let Some(before) = std::mem::replace(&mut last, waker) {
                    contain(block.home.as_deref(), || before.wake());
                }
            }
            Next::Listener if arrived || may_run_here(block) => {
                if let Some(listener) = take(block) {
                    call_listener(block, listener);
                }
            }
            Next::Listener => {
                send_home(ptr);
                break;
            }
        }
    }
    // The last waker is called only now, so that a reader which polls at once finds the block
    // settled. The block may be freed already, and with it the home to which a panic would be
    // reported.
    if let Some(waker) = last {
        contain(None, || waker.wake());
    }
}

/// Returns `true` if listeners may run on this thread now.
#[inline]
fn may_run_here<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    block.home.as_ref().is_none_or(|home| home.is_current()) && !depth::is_full()
}

/// Sends the block to its home. If it has none, defers it until the outermost listener returns.
#[cold]
fn send_home<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    if ptr.get().has(UNSTARTED) {
        // The home has ended or is stuck. Handle the signal as if it had been refused:
        return drop(signal_of(ptr));
    }
    // Clone the home: another thread may finish and free the block as soon as it was sent.
    match ptr.get().home.clone() {
        // Dropping a refused signal delivers it as orphaned: its listeners run on this thread.
        Some(home) => drop(home.signal(signal_of(ptr))),
        None => depth::defer(signal_of(ptr)),
    }
}

/// Returns a signal that carries the right to notify.
fn signal_of<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) -> Signal {
    // SAFETY: the header is the first field of the block; the right to notify keeps the block
    // alive, and only the thread that holds that right, this one, creates a signal.
    unsafe { Signal::from_block(ptr.0.cast::<SignalHeader>()) }
}

/// Calls a listener, contained, one level deeper.
#[inline]
fn call_listener<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>, listener: Listener) {
    depth::run_nested(ptr::from_ref(block).addr(), block.home.as_deref(), || {
        // SAFETY: the listeners of a block are made for its types.
        block.show(|outcome| unsafe { listener.call(outcome) });
    });
}

/// The kind of the next listener.
enum Next {
    None,
    Listener,
    Waker,
}

/// Returns the kind of the oldest pending listener. Drops removed listeners on the way.
#[inline]
fn next<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Next {
    // SAFETY: `inline_pending` belongs to the holder of `NOTIFYING`: this thread.
    let inline = block.inline_pending.with(|waits| unsafe { *waits });
    let is_waker = if inline {
        // SAFETY: `inline_pending` means that the slot is full and belongs to this thread.
        let slot = block.inline.with(|slot| unsafe { &*slot });
        // SAFETY: as above.
        unsafe { slot.assume_init_ref() }.is_waker()
    } else {
        // SAFETY: this thread holds `NOTIFYING`.
        match unsafe { block.nodes.oldest() } {
            Some(node) => node.is_waker(),
            None => return Next::None,
        }
    };
    if is_waker {
        Next::Waker
    } else {
        Next::Listener
    }
}

/// Takes the oldest pending listener out. Returns `None` if it was removed meanwhile.
#[inline]
fn take<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Option<Listener> {
    // SAFETY: `inline_pending` belongs to the holder of `NOTIFYING`: this thread.
    let inline = block
        .inline_pending
        .with_mut(|waits| unsafe { ptr::replace(waits, false) });
    if inline {
        // SAFETY: the slot was full and belongs to this thread, and is treated as empty from now
        // on.
        let listener = block.inline.with_mut(|slot| unsafe { slot.read() });
        // SAFETY: as above.
        return Some(unsafe { listener.assume_init() });
    }
    // SAFETY: this thread holds `NOTIFYING`.
    unsafe { block.nodes.pop() }?.take()
}

/// Releases the right to notify, and frees the block if this was the last owner. Returns `false`
/// and keeps the right if a listener was added meanwhile.
#[inline]
fn release<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) -> bool {
    let block = ptr.get();
    let word_waiters = block.word_waiters.clone();
    // ORDERING: Acquire pairs with the Release by which a listener was added or an owner bit
    // cleared.
    let mut state = block.state.load(Ordering::Acquire);
    loop {
        if state & LISTENER == 0 && state & (WRITER | READER) == 0 {
            // SAFETY: this is the only owner left, seen with Acquire, so nothing can be added.
            unsafe { ptr.free() };
            return true;
        }
        let more = state & LISTENER != 0;
        let next = if more {
            state & !(LISTENER | INLINE)
        } else {
            state & !NOTIFYING
        };
        // ORDERING: AcqRel. Release publishes the listeners' fields to the next holder of
        // `NOTIFYING`, and what the listeners did to the taker; Acquire pairs with the Release of
        // an addition. No model detects a missing Acquire on success: the value was read with
        // Acquire before, and while this thread holds `NOTIFYING`, no bit that it finds set is
        // cleared and set again. The Acquire on failure is needed.
        match block
            .state
            .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) if more => {
                if state & INLINE != 0 {
                    mark_inline_pending(block);
                }
                return false;
            }
            Ok(_) => {
                // The block may be freed already.
                if next & SLEEPER != 0 && is_settled(next) {
                    word_waiters.wake_one(ptr.word());
                }
                return true;
            }
            Err(now) => state = now,
        }
    }
}

/// Frees the nodes of removed listeners of an undecided block, so that they do not accumulate in a
/// long-lived promise.
pub(super) fn sweep<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    let block = ptr.get();
    let state = block.state.load(Ordering::Relaxed);
    block.sweep_in.store(SWEEP_AFTER, Ordering::Relaxed);
    if state & (DONE | NOTIFYING) != 0 {
        return;
    }
    // ORDERING: Acquire pairs with the Release by which the last holder of `NOTIFYING` cleared it.
    if block
        .state
        .compare_exchange(
            state,
            (state | NOTIFYING) & !(LISTENER | INLINE),
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_err()
    {
        return;
    }
    if state & INLINE != 0 {
        mark_inline_pending(block);
    }
    // SAFETY: this thread holds `NOTIFYING`.
    let live = unsafe { block.nodes.keep_live() };
    let next_sweep = u16::try_from(live).unwrap_or(u16::MAX);
    block
        .sweep_in
        .store(next_sweep.max(SWEEP_AFTER), Ordering::Relaxed);
    finish_sweep(ptr);
}

/// Ends a sweep: clears `NOTIFYING` and marks the remaining listeners as added. If the block was
/// decided meanwhile, notifies them instead.
fn finish_sweep<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    let block = ptr.get();
    // SAFETY: both belong to the holder of `NOTIFYING`: this thread.
    let inline = block.inline_pending.with(|waits| unsafe { *waits });
    // SAFETY: as above.
    let queued = unsafe { block.nodes.is_queued() };
    let mut waits = 0;
    if inline || queued {
        waits |= LISTENER;
    }
    if inline {
        waits |= INLINE;
    }
    let mut state = block.state.load(Ordering::Relaxed);
    while state & DONE == 0 {
        if inline {
            // SAFETY: as above; from now on the `INLINE` bit records that the slot is full.
            block
                .inline_pending
                .with_mut(|waits| unsafe { *waits = false });
        }
        // ORDERING: Release publishes `queue` to the next holder, in `decide`, `announce` or
        // `sweep`. Nothing is read after it, and an Acquire load comes before each access to the
        // outcome.
        match block.state.compare_exchange_weak(
            state,
            (state | waits) & !NOTIFYING,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => state = now,
        }
    }
    if inline {
        mark_inline_pending(block);
    }
    run_listeners(ptr, false);
}
