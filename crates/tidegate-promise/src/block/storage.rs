//! The memory of a block: its fields, and how it is allocated, read and freed.
//!
//! [`state`](super::state) says which thread may touch which field in which state. Nothing here
//! runs a listener: the files above decide, notify and cancel.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tidegate_core::internal::SignalHeader;
use tidegate_core::prim::{AtomicPtr, AtomicU16, AtomicU32, Ordering, UnsafeCell};
use tidegate_core::{Delivery, Executor, Task};

use super::bell::Bell;
use super::listener::{Listener, Node};
use super::state::{CANCELLED, DONE, INLINE, LEFT, LISTENER, OWNERS, READER, WRITER};
use super::{depth, memory};
use crate::outcome::Outcome;

/// The fewest removals of listeners between two sweeps.
pub(super) const SWEEP_AFTER: u16 = if cfg!(tidegate_loom) { 1 } else { 64 };

/// The block itself. Fields in the order in which they are used, so that a promise of a word
/// with one listener touches two cache lines.
#[repr(C)]
pub(super) struct Block<T: 'static, E: 'static> {
    /// The link to hang in a signal lane; must come first.
    header: SignalHeader,
    pub(super) state: AtomicU32,
    /// Shared writers, while the write end is shared.
    pub(super) writers: AtomicU32,
    /// Shared readers, while the read end is shared.
    pub(super) readers: AtomicU32,
    /// Removals of listeners until the next sweep.
    pub(super) sweep_in: AtomicU16,
    /// The holder of `NOTIFYING` has seen that `inline` is full.
    pub(super) inline_waits: UnsafeCell<bool>,
    /// The unique reader has moved the outcome out.
    pub(super) taken: UnsafeCell<bool>,
    pub(super) inline: UnsafeCell<MaybeUninit<Listener<T, E>>>,
    pub(super) outcome: UnsafeCell<MaybeUninit<Result<T, E>>>,
    /// By which the reader is woken when it sleeps on `state`.
    pub(super) bell: Bell,
    /// Where listeners run; `None` means wherever the outcome is decided.
    pub(super) home: Option<Arc<dyn Executor>>,
    /// Listeners beyond the first, newest first.
    pub(super) inbox: AtomicPtr<Node<T, E>>,
    /// Listeners taken out of the inbox, oldest first.
    pub(super) queue: UnsafeCell<*const Node<T, E>>,
    /// What runs on the thread that cancels.
    pub(super) hook: AtomicPtr<Task>,
    /// The failure of a promise whose writers are all gone.
    pub(super) abandoned: fn() -> E,
}

/// A promise of a word, failing with a pointer, fills two cache lines. (Those of
/// the models are larger.)
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
const _: () = assert!(size_of::<Block<u64, Arc<()>>>() <= 128);

/// A pointer to a block, by which the two ends and the notification share it.
pub(super) struct BlockPtr<T: 'static, E: 'static>(pub(super) NonNull<Block<T, E>>);

impl<T, E> Clone for BlockPtr<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, E> Copy for BlockPtr<T, E> {}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    const LAYOUT: Layout = Layout::new::<Block<T, E>>();

    /// Creates a block. `deliver` receives it when it is sent to `home` as a signal; `owed` is
    /// `OWED` or 0.
    #[inline(always)]
    pub(super) fn allocate(
        deliver: unsafe fn(NonNull<SignalHeader>, Delivery),
        home: Option<Arc<dyn Executor>>,
        abandoned: fn() -> E,
        owed: u32,
    ) -> Self {
        let memory = memory::take(Self::LAYOUT).cast::<Block<T, E>>();
        let block = Block {
            header: SignalHeader::new(deliver),
            state: AtomicU32::new(WRITER | READER | owed),
            writers: AtomicU32::new(1),
            readers: AtomicU32::new(1),
            sweep_in: AtomicU16::new(SWEEP_AFTER),
            inline_waits: UnsafeCell::new(false),
            taken: UnsafeCell::new(false),
            inline: UnsafeCell::new(MaybeUninit::uninit()),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
            bell: Bell::new(),
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
    pub(super) fn get(&self) -> &Block<T, E> {
        // SAFETY: a `BlockPtr` is only kept by somebody whose owner bit is set in the state
        // (writer, reader, notifier), and the block is freed when the last bit is cleared.
        unsafe { self.0.as_ref() }
    }

    /// Where its state lies, to be named and not to be looked at.
    pub(super) fn word(&self) -> *const AtomicU32 {
        let offset = std::mem::offset_of!(Block<T, E>, state);
        self.0.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// Where the block lies, to tell it from others.
    pub(super) fn addr(&self) -> usize {
        self.0.addr().get()
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// No owner bit is set any more, and the caller saw that with Acquire.
    pub(super) unsafe fn free(self) {
        let block = self.get();
        let state = block.state.load(Ordering::Relaxed);
        debug_assert_eq!(state & (LISTENER | INLINE), 0, "a listener was forgotten");
        // SAFETY: nobody else is left.
        let taken = block.taken.with(|taken| unsafe { *taken });
        if state & DONE != 0 && state & CANCELLED == 0 && !taken {
            // SAFETY: nobody else is left, and `DONE` without `CANCELLED` says that the outcome
            // was stored; it was not taken.
            match unsafe { block.take_outcome() } {
                Ok(value) => drop_contained(block.home.as_deref(), value),
                Err(cause) => drop_contained(block.home.as_deref(), cause),
            }
        }
        block.drop_hook();
        // SAFETY: what is left in the block is dropped here and not used again. The listener
        // slot and the outcome are `MaybeUninit` and have been dealt with.
        unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: the memory came from the pool with this layout.
        unsafe { memory::give(self.0.cast(), Self::LAYOUT) };
    }

    /// Clears `bit` and frees the block if nobody else needs it.
    pub(super) fn give_up(self, bit: u32) {
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
    pub(super) unsafe fn take_outcome(&self) -> Result<T, E> {
        // SAFETY: as the caller promises.
        let outcome = self.outcome.with_mut(|place| unsafe { place.read() });
        // SAFETY: as the caller promises.
        unsafe { outcome.assume_init() }
    }

    pub(super) fn take_hook(&self) -> Option<Box<Task>> {
        if self.hook.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // ORDERING: AcqRel: Acquire pairs with the Release in `Writer::on_cancel`; the swap
        // gives the hook to one thread.
        let hook = self.hook.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: non-null hooks come from `Box::into_raw`, and the swap gave this one away.
        (!hook.is_null()).then(|| unsafe { Box::from_raw(hook) })
    }

    /// Drops the hook, which will never be needed.
    #[inline(always)]
    pub(super) fn drop_hook(&self) {
        if !self.hook.load(Ordering::Relaxed).is_null() {
            self.drop_some_hook();
        }
    }

    #[cold]
    fn drop_some_hook(&self) {
        if let Some(hook) = self.take_hook() {
            depth::contain(self.home.as_deref(), || drop(hook));
        }
    }

    pub(super) fn load(&self) -> u32 {
        // ORDERING: Acquire, as in `Block::has`.
        self.state.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, bits: u32) -> bool {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set, so that who sees the
        // block done sees what happened before.
        self.state.load(Ordering::Acquire) & bits != 0
    }

    pub(super) fn outcome(&self) -> Option<Outcome<&T, &E>> {
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

    /// Shows the outcome to a listener, if it is decided.
    #[inline(always)]
    pub(super) fn show(&self, see: impl FnOnce(Outcome<&T, &E>)) {
        // ORDERING: Acquire pairs with the Release by which `DONE` was set.
        let state = self.state.load(Ordering::Acquire);
        if state & DONE == 0 {
            return;
        }
        if state & CANCELLED != 0 {
            return match state & LEFT {
                0 => see(Outcome::Cancelled),
                _ => see(Outcome::Failure(&(self.abandoned)())),
            };
        }
        // SAFETY: `DONE` is set, and the caller, who notifies, keeps the outcome from being taken.
        see(unsafe { self.decided_outcome(state) });
    }

    /// What the outcome of a cancelled block is to whoever reads it.
    pub(super) fn cancelled_outcome(&self, state: u32) -> Outcome<T, E> {
        match state & LEFT {
            0 => Outcome::Cancelled,
            _ => Outcome::Failure((self.abandoned)()),
        }
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

/// Counts one more handle. Ends the process, as `Arc` does, before a program that forgets handles
/// by the billion makes the count wrap and frees what is in use.
pub(super) fn count_one(handles: &AtomicU32) {
    // Relaxed: a new reference made from a live one, as in `Arc`.
    if handles.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
        std::process::abort();
    }
}

/// Drops something of the user's; its panic goes no further.
#[inline(always)]
fn drop_contained<V>(home: Option<&dyn Executor>, value: V) {
    if std::mem::needs_drop::<V>() {
        depth::contain(home, || drop(value));
    }
}
