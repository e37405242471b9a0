//! Telling the listeners, where they belong.
//!
//! Whoever holds the `NOTIFYING` bit of a block owns its listeners. It runs them if it is at the
//! block's home (or the block has none) and not too deep in other listeners; else it sends the
//! block itself to its home, as a signal, and the right travels with it. Wakers are called on
//! the spot. No lock is held while anything of the user's runs.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Waker;

use tidegate_core::internal::SignalHeader;
use tidegate_core::prim::Ordering;
use tidegate_core::{Delivery, Signal, Unhandled};

use super::decide::Decided;
use super::depth::{self, contain};
use super::listener::{Listener, Node};
use super::state::{DONE, INLINE, LEFT, LISTENER, NOTIFYING, READER, SLEEPER, WRITER, is_settled};
use super::storage::{Block, BlockPtr, SWEEP_AFTER};

impl Decided {
    /// Tells the listeners, or wakes the reader that sleeps on the block. The block may be gone
    /// unless this thread got the right to notify.
    #[inline(always)]
    pub(super) fn tell<T: Send + 'static, E: Send + 'static>(&self, ptr: BlockPtr<T, E>) {
        if self.notify {
            start(ptr, self.inline);
        } else if self.state & SLEEPER != 0 && is_settled(self.state) {
            self.bell.ring(ptr.word());
        }
    }
}

/// Begins a notification: the caller has just set `NOTIFYING`, and saw `INLINE` if `inline`.
#[inline]
pub(super) fn start<T: Send, E: Send>(ptr: BlockPtr<T, E>, inline: bool) {
    if inline {
        if is_here(ptr.get()) && tell_first(ptr.get()) {
            if has_more(ptr.get()) || !release(ptr) {
                go_on(ptr, false);
            }
            return;
        }
        note_inline(ptr.get());
    }
    go_on(ptr, false);
}

/// Whether listeners beyond the inline one were there when the right to notify was taken.
#[inline(always)]
fn has_more<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
    let queued = !block.queue.with(|queue| unsafe { *queue }).is_null();
    queued || !block.inbox.load(Ordering::Relaxed).is_null()
}

/// Tells the inline listener without noting it first: the common case of a single listener that
/// may run here and now. False if it is a waker, which is woken last.
#[inline(always)]
fn tell_first<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    let place = block.inline.with_mut(|slot| slot.cast::<Listener<T, E>>());
    // SAFETY: this thread holds `NOTIFYING` and saw `INLINE` when it took it: the slot is full
    // and belongs to this thread.
    if unsafe { &*place }.is_waker() {
        return false;
    }
    depth::deeper(ptr::from_ref(block).addr(), block.home.as_deref(), || {
        block.show(|outcome| {
            // SAFETY: as above; nobody looks at the slot again, since `INLINE` is clear and
            // `inline_waits` was not set, and the block lives while `NOTIFYING` is held.
            unsafe { Listener::call_at(place, outcome) };
        });
    });
    true
}

fn note_inline<T: Send, E: Send>(block: &Block<T, E>) {
    // SAFETY: `inline_waits` belongs to the holder of `NOTIFYING`: this thread.
    block
        .inline_waits
        .with_mut(|waits| unsafe { *waits = true });
}

/// Receives a block that was sent home. The signal carried the right to notify.
pub(super) unsafe fn deliver<T: Send + 'static, E: Send + 'static>(
    header: NonNull<SignalHeader>,
    how: Delivery,
) {
    let ptr = BlockPtr(header.cast::<Block<T, E>>());
    if how == Delivery::Orphaned {
        depth::tell_home(ptr.get().home.as_deref(), &Unhandled::ListenerFellBack);
    }
    // An orphan runs inside whatever the completing thread is in, and so does a signal of an
    // executor that delivers on the spot.
    if depth::is_full() {
        return depth::defer(signal_of(ptr));
    }
    go_on(ptr, true);
}

/// Tells listeners until none is left, or sends the block on. `arrived`: it need not go home.
fn go_on<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>, arrived: bool) {
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
            Next::Listener if arrived || is_here(block) => {
                if let Some(listener) = take(block) {
                    tell(block, listener);
                }
            }
            Next::Listener => {
                send_home(ptr);
                break;
            }
        }
    }
    // Woken only now, so that a reader which comes back at once finds the block settled.
    // The block may be gone, and with it the home that would hear of a panic.
    if let Some(waker) = last {
        contain(None, || waker.wake());
    }
}

/// Whether listeners may run on this thread, now.
#[inline]
fn is_here<T: Send, E: Send>(block: &Block<T, E>) -> bool {
    block.home.as_ref().is_none_or(|home| home.is_current()) && !depth::is_full()
}

/// Sends the block to its home, or, if it has none, queues it behind the outermost listener.
#[cold]
fn send_home<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    if ptr.get().has(LEFT) {
        // Its home has ended or is stuck for good. As if refused:
        return drop(signal_of(ptr));
    }
    // A clone: another thread may finish and free the block as soon as it was sent.
    match ptr.get().home.clone() {
        // A refused signal is dropped, and so delivered as orphaned: its listeners run here.
        Some(home) => drop(home.signal(signal_of(ptr))),
        None => depth::defer(signal_of(ptr)),
    }
}

/// A signal that carries the right to notify.
fn signal_of<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) -> Signal {
    // SAFETY: the header comes first in the block; the right to notify keeps the block alive,
    // and only whoever holds that right, this thread, makes a signal.
    unsafe { Signal::from_block(ptr.0.cast::<SignalHeader>()) }
}

/// Calls a listener, contained, one level deeper.
#[inline]
fn tell<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>, listener: Listener<T, E>) {
    depth::deeper(ptr::from_ref(block).addr(), block.home.as_deref(), || {
        block.show(|outcome| listener.call(outcome));
    });
}

/// What comes next.
enum Next {
    None,
    Listener,
    Waker,
}

/// Looks at the oldest waiting listener; drops removed ones on the way.
#[inline]
fn next<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Next {
    // SAFETY: `inline_waits` belongs to the holder of `NOTIFYING`: this thread.
    let inline = block.inline_waits.with(|waits| unsafe { *waits });
    let is_waker = if inline {
        // SAFETY: `inline_waits` says that the slot is full and belongs to this thread.
        let slot = block.inline.with(|slot| unsafe { &*slot });
        // SAFETY: as above.
        unsafe { slot.assume_init_ref() }.is_waker()
    } else {
        match oldest(block) {
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

/// Takes the oldest waiting listener out; `None` if it was removed meanwhile.
#[inline]
fn take<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Option<Listener<T, E>> {
    // SAFETY: `inline_waits` belongs to the holder of `NOTIFYING`: this thread.
    let inline = block
        .inline_waits
        .with_mut(|waits| unsafe { ptr::replace(waits, false) });
    if inline {
        // SAFETY: the slot was full and belongs to this thread, and is empty from now on.
        let listener = block.inline.with_mut(|slot| unsafe { slot.read() });
        // SAFETY: as above.
        return Some(unsafe { listener.assume_init() });
    }
    pop(block)?.take()
}

/// The oldest node that still holds its listener. Fills the queue from the inbox.
fn oldest<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Option<&Node<T, E>> {
    loop {
        refill(block);
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        let head = block.queue.with(|queue| unsafe { *queue });
        // SAFETY: nodes in the queue are alive: the queue owns a reference to each.
        let node = unsafe { head.as_ref() }?;
        if !node.is_gone() {
            return Some(node);
        }
        drop(pop(block));
    }
}

/// Moves what is in the inbox into the queue if the queue is empty, oldest first.
fn refill<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) {
    // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
    if !block.queue.with(|queue| unsafe { *queue }).is_null() {
        return;
    }
    let list = take_inbox(block);
    // SAFETY: as above.
    block.queue.with_mut(|queue| unsafe { *queue = list });
}

/// Empties the inbox; the answer is a list from oldest to newest.
fn take_inbox<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> *const Node<T, E> {
    if block.inbox.load(Ordering::Relaxed).is_null() {
        return ptr::null();
    }
    // ORDERING: Acquire pairs with the Release by which each node was pushed.
    let mut newest = block.inbox.swap(ptr::null_mut(), Ordering::Acquire);
    let mut oldest: *mut Node<T, E> = ptr::null_mut();
    while !newest.is_null() {
        // SAFETY: nodes in the inbox are alive: it owned a reference to each, now this list's.
        let node = unsafe { &*newest };
        let older = node.next.load(Ordering::Relaxed);
        node.next.store(oldest, Ordering::Relaxed);
        oldest = newest;
        newest = older;
    }
    oldest
}

/// Takes the first node out of the queue.
fn pop<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) -> Option<Arc<Node<T, E>>> {
    // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
    let head = block.queue.with(|queue| unsafe { *queue });
    if head.is_null() {
        return None;
    }
    // SAFETY: the queue owned a reference to its first node, made by `Arc::into_raw`.
    let node = unsafe { Arc::from_raw(head) };
    let next = node.next.load(Ordering::Relaxed);
    // SAFETY: as above.
    block.queue.with_mut(|queue| unsafe { *queue = next });
    Some(node)
}

/// Gives the right to notify up, unless something was added meanwhile (then false). Frees the
/// block if nobody else needs it.
#[inline]
fn release<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) -> bool {
    let block = ptr.get();
    let bell = block.bell.clone();
    // ORDERING: Acquire pairs with the Release by which a listener was added or an owner left.
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
        // ORDERING: AcqRel. Release hands the listeners' fields to the next holder and what the
        // listeners did to the taker; Acquire pairs with the Release of an addition. No model
        // sees the Acquire of a success: the value was read with Acquire before, and while this
        // thread may notify, no bit that it finds set comes and goes. That of a failure counts.
        match block
            .state
            .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) if more => {
                if state & INLINE != 0 {
                    note_inline(block);
                }
                return false;
            }
            Ok(_) => {
                // The block may be gone.
                if next & SLEEPER != 0 && is_settled(next) {
                    bell.ring(ptr.word());
                }
                return true;
            }
            Err(now) => state = now,
        }
    }
}

/// Takes removed listeners out of an undecided block, so that a long-lived promise does not
/// collect the husks of listeners that came and went.
pub(super) fn sweep<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    let block = ptr.get();
    let state = block.state.load(Ordering::Relaxed);
    block.sweep_in.store(SWEEP_AFTER, Ordering::Relaxed);
    if state & (DONE | NOTIFYING) != 0 {
        return;
    }
    // ORDERING: Acquire pairs with the Release by which the last holder of the right left.
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
        note_inline(block);
    }
    keep_live(block);
    unsweep(ptr);
}

/// Rebuilds the queue from its own nodes and the inbox's, without the removed ones.
fn keep_live<T: Send + 'static, E: Send + 'static>(block: &Block<T, E>) {
    let mut live = Vec::new();
    loop {
        while let Some(node) = pop(block) {
            if !node.is_gone() {
                live.push(node);
            }
        }
        refill(block);
        // SAFETY: `queue` belongs to the holder of `NOTIFYING`: this thread.
        if block.queue.with(|queue| unsafe { *queue }).is_null() {
            break;
        }
    }
    let next_sweep = u16::try_from(live.len()).unwrap_or(u16::MAX);
    block
        .sweep_in
        .store(next_sweep.max(SWEEP_AFTER), Ordering::Relaxed);
    let mut list: *mut Node<T, E> = ptr::null_mut();
    for node in live.into_iter().rev() {
        node.next.store(list, Ordering::Relaxed);
        list = Arc::into_raw(node).cast_mut();
    }
    // SAFETY: as above.
    block.queue.with_mut(|queue| unsafe { *queue = list });
}

/// Ends a sweep: gives the right back with what waits marked as waiting, or, if the block was
/// decided meanwhile, tells the listeners.
fn unsweep<T: Send + 'static, E: Send + 'static>(ptr: BlockPtr<T, E>) {
    let block = ptr.get();
    // SAFETY: both belong to the holder of `NOTIFYING`: this thread.
    let inline = block.inline_waits.with(|waits| unsafe { *waits });
    // SAFETY: as above.
    let queued = !block.queue.with(|queue| unsafe { *queue }).is_null();
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
            // SAFETY: as above; the bit in the state says the same from now on.
            block
                .inline_waits
                .with_mut(|waits| unsafe { *waits = false });
        }
        // ORDERING: Release hands `queue` to the next holder, in `decide`, `announce` or `sweep`.
        // Nothing is read after it, and before a look at the outcome there is an Acquire load.
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
        note_inline(block);
    }
    go_on(ptr, false);
}
