//! The promise block: one heap block, one state word, the first listener inline.
//!
//! [`Writer`] and [`Reader`] are the two ends of a block: the raw, minimal ones, on which
//! `tidegate-promise` builds what users see. [`state`] has the bits and says who may touch
//! which field when; [`notify`] runs the listeners where they belong.
//!
//! A block that lives the common life (made, listened to, completed) costs two atomic
//! operations when its read end is given up with the listener, three otherwise, and no lock.

use std::alloc::Layout;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use self::listener::{Listener, Node};
use self::state::{
    CANCELLED, CLAIMED, DONE, INLINE, LISTENER, NOTIFYING, OWNERS, READER, UNCANCELLABLE, WRITER,
};
use crate::executor::Executor;
use crate::prim::{AtomicPtr, AtomicU16, AtomicU32, Ordering, UnsafeCell, fence};
use crate::signal::SignalHeader;
use crate::task::Task;

mod listener;
mod notify;
mod pool;
mod state;

/// How something ended: exactly one of three ways.
///
/// ```
/// use tidegate_sync::Outcome;
///
/// let outcome: Outcome<u32, String> = Outcome::Success(7);
/// assert_eq!(outcome.as_ref().success(), Some(&7));
/// assert!(!outcome.is_cancelled());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T, E> {
    /// It succeeded.
    Success(T),
    /// It failed.
    Failure(E),
    /// It was cancelled before it was completed.
    Cancelled,
}

impl<T, E> Outcome<T, E> {
    /// The same outcome, borrowed.
    pub fn as_ref(&self) -> Outcome<&T, &E> {
        match self {
            Self::Success(value) => Outcome::Success(value),
            Self::Failure(cause) => Outcome::Failure(cause),
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The value of a success.
    pub fn success(self) -> Option<T> {
        match self {
            Self::Success(value) => Some(value),
            _ => None,
        }
    }

    /// The cause of a failure.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failure(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether it succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl<T: Clone, E: Clone> Outcome<&T, &E> {
    /// The same outcome, owned.
    pub fn cloned(self) -> Outcome<T, E> {
        match self {
            Outcome::Success(value) => Outcome::Success(value.clone()),
            Outcome::Failure(cause) => Outcome::Failure(cause.clone()),
            Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}

/// The block itself. Fields in the order in which they are used, so that a promise of a word
/// with one listener touches two cache lines.
#[repr(C)]
struct Block<T: 'static, E: 'static> {
    /// The link to hang in a signal lane; must come first.
    header: SignalHeader,
    state: AtomicU32,
    /// Shared writers, while the write end is shared.
    writers: AtomicU32,
    /// Shared readers, while the read end is shared.
    readers: AtomicU32,
    /// Removals of listeners until the next sweep.
    sweep_in: AtomicU16,
    /// The holder of `NOTIFYING` has seen that `inline` is full.
    inline_waits: UnsafeCell<bool>,
    /// The unique reader has moved the outcome out.
    taken: UnsafeCell<bool>,
    inline: UnsafeCell<MaybeUninit<Listener<T, E>>>,
    outcome: UnsafeCell<MaybeUninit<Result<T, E>>>,
    /// Where listeners run; `None` means wherever the outcome is decided.
    home: Option<Arc<dyn Executor>>,
    /// Listeners beyond the first, newest first.
    inbox: AtomicPtr<Node<T, E>>,
    /// Listeners taken out of the inbox, oldest first.
    queue: UnsafeCell<*const Node<T, E>>,
    /// What runs on the thread that cancels.
    hook: AtomicPtr<Task>,
    /// The failure of a promise whose writers are all gone.
    abandoned: fn() -> E,
}

/// A pointer to a block, by which the two ends and the notification share it.
struct BlockPtr<T: 'static, E: 'static>(NonNull<Block<T, E>>);

impl<T, E> Clone for BlockPtr<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, E> Copy for BlockPtr<T, E> {}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    const LAYOUT: Layout = Layout::new::<Block<T, E>>();

    fn allocate(home: Option<Arc<dyn Executor>>, abandoned: fn() -> E) -> Self {
        let memory = pool::take(Self::LAYOUT).cast::<Block<T, E>>();
        let block = Block {
            header: SignalHeader::new(notify::deliver::<T, E>),
            state: AtomicU32::new(WRITER | READER),
            writers: AtomicU32::new(1),
            readers: AtomicU32::new(1),
            sweep_in: AtomicU16::new(notify::SWEEP_AFTER),
            inline_waits: UnsafeCell::new(false),
            taken: UnsafeCell::new(false),
            inline: UnsafeCell::new(MaybeUninit::uninit()),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
            home,
            inbox: AtomicPtr::new(ptr::null_mut()),
            queue: UnsafeCell::new(ptr::null()),
            hook: AtomicPtr::new(ptr::null_mut()),
            abandoned,
        };
        // SAFETY: the memory is fresh and of the block's layout.
        unsafe { memory.as_ptr().write(block) };
        Self(memory)
    }

    #[inline(always)]
    fn get(&self) -> &Block<T, E> {
        // SAFETY: a `BlockPtr` is only kept by somebody whose owner bit is set in the state
        // (writer, reader, notifier), and the block is freed when the last bit is cleared.
        unsafe { self.0.as_ref() }
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// No owner bit is set any more, and the caller saw that with Acquire.
    unsafe fn free(self) {
        let block = self.get();
        let state = block.state.load(Ordering::Relaxed);
        debug_assert_eq!(state & (LISTENER | INLINE), 0, "a listener was forgotten");
        // SAFETY: nobody else is left.
        let taken = block.taken.with(|taken| unsafe { *taken });
        if state & DONE != 0 && state & CANCELLED == 0 && !taken {
            // SAFETY: nobody else is left, and `DONE` without `CANCELLED` says that the outcome
            // was stored; it was not taken.
            drop(unsafe { block.take_outcome() });
        }
        drop(block.take_hook());
        // SAFETY: what is left in the block is dropped here and not used again. The listener
        // slot and the outcome are `MaybeUninit` and have been dealt with.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: the memory came from the pool with this layout.
        unsafe { pool::give(self.0.cast(), Self::LAYOUT) };
    }

    /// Decides the outcome if `next` finds a next state; `None` means that it was decided
    /// before. Answers whether listeners wait to be told and this thread must see to it.
    ///
    /// On the pointer, not on a reference: another owner may free the block as soon as the
    /// state has changed.
    #[inline(always)]
    fn decide(self, next: impl Fn(u32) -> Option<u32>) -> Option<Decided> {
        let word = &self.get().state;
        let mut state = word.load(Ordering::Relaxed);
        loop {
            let mut next = next(state)?;
            let notify = state & LISTENER != 0 && state & NOTIFYING == 0;
            if notify {
                next = (next | NOTIFYING) & !(LISTENER | INLINE);
            }
            // ORDERING: AcqRel. Release publishes the outcome to every Acquire load of `DONE`;
            // Acquire pairs with the Release by which listeners were added.
            match word.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Decided {
                        notify,
                        inline: notify && state & INLINE != 0,
                        state: next,
                    });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Cancels; false if the outcome is decided, being stored, or cannot be cancelled.
    fn cancel(self) -> bool {
        let Some(decided) = self.decide(|state| {
            (state & (DONE | CLAIMED | UNCANCELLABLE) == 0).then_some(state | DONE | CANCELLED)
        }) else {
            return false;
        };
        // ORDERING: SeqCst fence between setting `CANCELLED` and looking for a hook; pairs with
        // the fence in `Block::on_cancel`.
        fence(Ordering::SeqCst);
        let block = self.get();
        if let Some(hook) = block.take_hook() {
            notify::contain(block.home.as_deref(), || hook.run());
        }
        if decided.notify {
            notify::start(self, decided.inline);
        }
        true
    }

    /// Clears `bit` and frees the block if nobody else needs it.
    fn give_up(self, bit: u32) {
        let block = self.get();
        // ORDERING: Acquire, so that freeing comes after whatever the other owners did; pairs
        // with the Release of the operation by which each of them cleared its bit.
        let mut state = block.state.load(Ordering::Acquire);
        if state & OWNERS != bit {
            // ORDERING: AcqRel. Release hands what this owner did to the one that frees; Acquire
            // as above.
            state = block.state.fetch_and(!bit, Ordering::AcqRel);
        }
        if state & OWNERS == bit {
            // SAFETY: this was the last owner, seen with Acquire.
            unsafe { self.free() };
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    /// Moves the outcome out.
    ///
    /// # Safety
    ///
    /// It was stored, was not moved out before, and the caller alone may touch it.
    unsafe fn take_outcome(&self) -> Result<T, E> {
        // SAFETY: as the caller promises.
        let outcome = self.outcome.with_mut(|place| unsafe { place.read() });
        // SAFETY: as the caller promises.
        unsafe { outcome.assume_init() }
    }

    fn take_hook(&self) -> Option<Box<Task>> {
        if self.hook.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // ORDERING: AcqRel: Acquire pairs with the Release in `Writer::on_cancel`; the swap
        // gives the hook to one thread.
        let hook = self.hook.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: non-null hooks come from `Box::into_raw`, and the swap gave this one away.
        (!hook.is_null()).then(|| unsafe { Box::from_raw(hook) })
    }

    fn outcome(&self) -> Option<Outcome<&T, &E>> {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set.
        let state = self.state.load(Ordering::Acquire);
        if state & DONE == 0 {
            return None;
        }
        // SAFETY: `DONE` is set, and the caller (a reader or the notifier) keeps the outcome
        // from being taken: the unique reader takes it only through `&mut`, after all
        // notification.
        Some(unsafe { self.decided_outcome(state) })
    }

    /// # Safety
    ///
    /// `state` has `DONE` and was read with Acquire, and the outcome is not taken meanwhile.
    #[inline(always)]
    unsafe fn decided_outcome(&self, state: u32) -> Outcome<&T, &E> {
        if state & CANCELLED != 0 {
            return Outcome::Cancelled;
        }
        // SAFETY: `DONE` without `CANCELLED` says that the outcome was stored, and nobody
        // changes it any more.
        let outcome = self.outcome.with(|place| unsafe { &*place });
        // SAFETY: as above.
        match unsafe { outcome.assume_init_ref() } {
            Ok(value) => Outcome::Success(value),
            Err(cause) => Outcome::Failure(cause),
        }
    }
}

/// What a thread that decided an outcome has to see to.
struct Decided {
    /// It got the right to notify.
    notify: bool,
    /// The inline listener is among those to be told.
    inline: bool,
    /// The state it left.
    state: u32,
}

/// Makes a block and answers its two ends. `home` is where listeners run, `abandoned` makes the
/// failure for a block whose write end is dropped undecided.
pub fn block<T: Send + 'static, E: Send + 'static>(
    home: Option<Arc<dyn Executor>>,
    abandoned: fn() -> E,
) -> (Writer<T, E>, Reader<T, E>) {
    let block = BlockPtr::allocate(home, abandoned);
    (Writer { block }, Reader::new(block))
}

/// The unique write end. Dropping it fails the block as abandoned.
pub struct Writer<T: Send + 'static, E: Send + 'static> {
    block: BlockPtr<T, E>,
}

// SAFETY: a writer is the right to store one `T` or `E` that others read or take elsewhere.
unsafe impl<T: Send, E: Send> Send for Writer<T, E> {}
// SAFETY: a shared reference only asks for the state and the home, and cancels.
unsafe impl<T: Send, E: Send> Sync for Writer<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Writer<T, E> {
    /// Stores the outcome and tells the listeners.
    ///
    /// # Errors
    ///
    /// The outcome, when the block was cancelled.
    #[inline]
    pub fn complete(self, outcome: Result<T, E>) -> Result<(), Result<T, E>> {
        let ptr = self.block;
        std::mem::forget(self);
        let block = ptr.get();
        // SAFETY: the write end is unique and has not decided yet, so nobody else touches the
        // outcome before `DONE` is set below.
        block
            .outcome
            .with_mut(|place| unsafe { place.write(MaybeUninit::new(outcome)) });
        let Some(decided) =
            ptr.decide(|state| (state & DONE == 0).then_some((state | DONE) & !WRITER))
        else {
            // SAFETY: it was cancelled, so nobody looks at the outcome that was stored above.
            let outcome = unsafe { block.take_outcome() };
            ptr.give_up(WRITER);
            return Err(outcome);
        };
        if !decided.notify && decided.state & OWNERS == 0 {
            // SAFETY: no owner is left; the compare-and-swap was an Acquire.
            unsafe { ptr.free() };
            return Ok(());
        }
        // The hook will never be needed: what it captured goes at once. The right to notify or
        // the reader's bit keeps the block alive; where neither is this thread's, the hook is
        // freed with the block.
        if decided.notify {
            drop(block.take_hook());
            notify::start(ptr, decided.inline);
        }
        Ok(())
    }

    /// Marks the block as no longer cancellable; false only if it was cancelled already.
    pub fn set_uncancellable(&self) -> bool {
        self.block.get().set_uncancellable()
    }

    /// Runs `hook` on the thread that cancels the block; at once, on this thread, if it is
    /// cancelled already. A later hook replaces an earlier one.
    pub fn on_cancel(&self, hook: Task) {
        self.block.get().on_cancel(hook);
    }

    /// Whether the block was cancelled: nobody waits for the outcome.
    pub fn is_cancelled(&self) -> bool {
        self.block.get().has(CANCELLED)
    }

    /// Whether anybody can still see the outcome: a read end, or a listener.
    pub fn is_observed(&self) -> bool {
        self.block.get().has(READER | LISTENER | NOTIFYING)
    }

    /// Where the listeners run.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.block.get().home.as_ref()
    }

    /// Turns the unique end into one that can be cloned.
    pub fn share(self) -> SharedWriter<T, E> {
        let block = self.block;
        std::mem::forget(self);
        SharedWriter { block }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Writer<T, E> {
    fn drop(&mut self) {
        let block = self.block.get();
        if block.has(DONE) {
            // It was cancelled; nobody else could have decided.
            self.block.give_up(WRITER);
            return;
        }
        let outcome = Err((block.abandoned)());
        let writer = Self { block: self.block };
        // A cancellation may still win; then nothing was abandoned.
        drop(writer.complete(outcome));
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Writer<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    fn has(&self, bits: u32) -> bool {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set, so that who sees the
        // block done sees what happened before.
        self.state.load(Ordering::Acquire) & bits != 0
    }

    fn set_uncancellable(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (DONE | UNCANCELLABLE) == 0 {
            // Relaxed: says nothing about data, only that no cancellation can follow.
            match self.state.compare_exchange_weak(
                state,
                state | UNCANCELLABLE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        state & CANCELLED == 0
    }

    fn on_cancel(&self, hook: Task) {
        let hook = Box::into_raw(Box::new(hook));
        // ORDERING: AcqRel: Release publishes the hook to `take_hook`, Acquire takes over an
        // earlier one.
        let before = self.hook.swap(hook, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: non-null hooks come from `Box::into_raw`; the swap gave this one away.
            drop(unsafe { Box::from_raw(before) });
        }
        // ORDERING: SeqCst fence between storing the hook and looking at the state; pairs with
        // the fence in `BlockPtr::cancel`: the canceller finds the hook, or this thread finds
        // `CANCELLED`, or both, and then `take_hook` gives it to one of them.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) & CANCELLED != 0
            && let Some(hook) = self.take_hook()
        {
            hook.run();
        }
    }
}

/// A write end that can be cloned. The first to complete wins; when the last one is dropped
/// undecided, the block fails as abandoned.
pub struct SharedWriter<T: Send + 'static, E: Send + 'static> {
    block: BlockPtr<T, E>,
}

// SAFETY: as for `Writer`.
unsafe impl<T: Send, E: Send> Send for SharedWriter<T, E> {}
// SAFETY: completing through a shared reference claims the outcome by compare-and-swap first.
unsafe impl<T: Send, E: Send> Sync for SharedWriter<T, E> {}

impl<T: Send + 'static, E: Send + 'static> SharedWriter<T, E> {
    /// Stores the outcome and tells the listeners, if nobody was faster.
    ///
    /// # Errors
    ///
    /// The outcome, when another writer or a cancellation was faster.
    pub fn try_complete(&self, outcome: Result<T, E>) -> Result<(), Result<T, E>> {
        let block = self.block.get();
        let mut state = block.state.load(Ordering::Relaxed);
        loop {
            if state & (DONE | CLAIMED) != 0 {
                return Err(outcome);
            }
            // Relaxed: a claim among writers; `DONE` below publishes.
            match block.state.compare_exchange_weak(
                state,
                state | CLAIMED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: `CLAIMED` gives the outcome to this thread alone until `DONE` is set.
        block
            .outcome
            .with_mut(|place| unsafe { place.write(MaybeUninit::new(outcome)) });
        let decided = self.block.decide(|state| Some(state | DONE));
        drop(block.take_hook());
        if let Some(decided) = decided
            && decided.notify
        {
            notify::start(self.block, decided.inline);
        }
        Ok(())
    }

    /// See [`Writer::set_uncancellable`].
    pub fn set_uncancellable(&self) -> bool {
        self.block.get().set_uncancellable()
    }

    /// See [`Writer::on_cancel`].
    pub fn on_cancel(&self, hook: Task) {
        self.block.get().on_cancel(hook);
    }

    /// Whether the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.block.get().has(DONE)
    }

    /// Whether the block was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.block.get().has(CANCELLED)
    }

    /// Cancels the block from the writers' side.
    pub fn cancel(&self) -> bool {
        self.block.cancel()
    }
}

impl<T: Send + 'static, E: Send + 'static> Clone for SharedWriter<T, E> {
    fn clone(&self) -> Self {
        // Relaxed: a new reference made from a live one, as in `Arc`.
        self.block.get().writers.fetch_add(1, Ordering::Relaxed);
        Self { block: self.block }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for SharedWriter<T, E> {
    fn drop(&mut self) {
        let block = self.block.get();
        // ORDERING: AcqRel, as in `Arc`: the last writer sees what the others did.
        if block.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(Writer { block: self.block });
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for SharedWriter<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWriter")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

mod reader;

pub use self::reader::{ListenerToken, Reader, SharedReader};

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
